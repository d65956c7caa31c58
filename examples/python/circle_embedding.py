"""Attention as a dictionary that is looked up softly.

Words stand on a circle, Spanish words are keys, English words are values, and PERRO asks. The word bag is seed 002's.
"""
import heed
import numpy as np

WORD_BAG = ["EL", "PERRO", "TIENE", "EL", "PELO", "SUELTO", "THE", "DOG", "HAS", "LOOSE", "HAIR"]
SPANISH = ["PERRO", "TIENE", "PELO"]
ENGLISH = ["DOG", "HAS", "HAIR"]
PRINTED = [0.4116032614668716, 0.3755560066392266, 0.2128407318939017]  # by the seed


def circle_embedding(words):
    """Word i of n stands at angle 2 pi i / n. A word that occurs twice keeps its later place."""
    angles = 2 * np.pi * np.arange(len(words)) / len(words)
    return dict(zip(words, np.stack([np.cos(angles), np.sin(angles)], axis=1)))


def embed(words):
    """(1, 1, words, 2): one batch entry, one head."""
    embedding = circle_embedding(WORD_BAG)
    return np.array([embedding[word] for word in words])[None, None]


def look_up(query, keys, values, scale):
    """The weights of one query word over `keys`, and the average of `values` under them."""
    return heed.attention(embed([query]), embed(keys), embed(values), scale=scale, return_weights=True)


def report(r):
    weights, out = r.weights[0, 0, 0], r.out[0, 0, 0]
    for spanish, english, weight in zip(SPANISH, ENGLISH, weights):
        print(f"  {spanish:5} -> {english:4}  {weight:.15f}")
    print(f"  PERRO translates to {ENGLISH[weights.argmax()]}, the value of the largest weight")
    # The weights are nearly even, so the average of the values lies between them.
    nearest = max(ENGLISH, key=lambda word: circle_embedding(WORD_BAG)[word] @ out)
    print(f"  (the averaged value itself points to {nearest})\n")


seed = look_up("PERRO", SPANISH, ENGLISH, 1 / np.sqrt(3))
print("Divided by sqrt(number of keys) = sqrt(3), as seed 002 computes:")
report(seed)
print(f"The seed printed {PRINTED}: {abs(seed.weights - PRINTED).max():.1e} apart\n")

print("Divided by sqrt(d_k) = sqrt(2), d_k the size of a key. This is the formula:")
report(look_up("PERRO", SPANISH, ENGLISH, 1 / np.sqrt(2)))

x, y = circle_embedding(WORD_BAG)["EL"]
print(f"EL is in the bag twice, at 0 and 3; the later one wins: ({x:.4f}, {y:.4f})")
