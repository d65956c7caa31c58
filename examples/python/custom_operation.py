"""An operation that heed does not have, on its tape, checked and put to use.

The snake activation x + sin(a x)^2 / a (Ziyin et al. 2020, "Neural Networks Fail to Learn Periodic Functions",
section 3), with a learned `a`.
"""
import numpy as np
from heed import nn
from heed.nn import functional as F


def snake(x, a):
    """x of any shape, a shaped ()."""
    value, rate = x.numpy(), a.item()
    sine = np.sin(rate * value)

    def backward(grad):
        slope = np.sin(2 * rate * value)  # d sin(av)^2 / d(av)
        return grad * (1 + slope), (grad * (value * slope / rate - sine ** 2 / rate ** 2)).sum()

    return F.custom_op([x, a], value + sine ** 2 / rate, backward)


class Wave(nn.Module):
    """y = w2 snake(w1 x + b1) + b2"""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(1, 16), nn.Linear(16, 1)
        self.a = nn.Variable(np.array(1, np.float32), requires_grad=True)

    def forward(self, x):
        return self.second(snake(self.first(x), self.a))


# Its derivative against a difference.
x, step = 0.4, 1e-5
leaf, rate = (nn.Variable(np.array(value), requires_grad=True) for value in (x, 1.5))
snake(leaf, rate).backward()
above, below = (snake(nn.Variable(np.array(x + h)), rate).item() for h in (step, -step))
print(f"derivative {leaf.grad:.4f}, by differences {(above - below) / (2 * step):.4f}")

# It learns a sine from 64 points.
nn.manual_seed(3)
wave = Wave()
adam = nn.AdamW(wave)
points = (np.arange(64, dtype=np.float32) / 8 - 4)[:, None]
targets = np.sin(2 * points)
for update in range(601):
    error = wave(points) - targets
    loss = F.sum(error * error) / 64
    if update % 200 == 0:
        print(f"step {update}: mean square error {loss.item():.4f}")
    adam.zero_grad()
    loss.backward()
    adam.step(0.01)
