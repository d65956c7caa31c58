"""The weights of a part of a model: one layer, two heads, one row, as docs/looking_at_attention.md has it."""
from heed import nn

nn.manual_seed(1)
model = nn.LanguageModel(vocab_size=50, d_model=32, nhead=4, num_layers=3, dim_feedforward=64)
record = nn.AttentionRecord(layers=[2], heads=[0, 3], rows=[4])  # none of the three: everything
with nn.no_grad():
    model.hidden(nn.TokenBatch.pad([[7, 8, 9, 10, 11]], pad_id=0), record)
weights = record.decoder[2]  # (B, heads, rows, Lk): (1, 2, 1, 5)
print(weights.shape, "layer 3, head 4, last token:", weights[0, 1, 0].round(4))
