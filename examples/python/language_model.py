"""A language model of ten tokens that learns to count, as docs/language_models.md has it."""
from heed import nn

nn.manual_seed(1)
model = nn.LanguageModel(vocab_size=10, d_model=32, nhead=2, num_layers=1, dim_feedforward=64, dropout=0,
                         max_positions=16)
optimiser = nn.AdamW(model)
for update in range(60):
    optimiser.zero_grad()
    loss = model.loss([[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3]])
    loss.backward()
    optimiser.step(0.01)
model.eval()
print(f"loss {loss.item():.3f}, after 4, 5 come {model.generate([4, 5], max_tokens=3, temperature=0)}")
