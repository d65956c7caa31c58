"""Scaled dot-product attention under a causal mask, on five words with printed numbers.

Each word sees itself and the words before it. The numbers are those of seed 001, which drew them at random and printed
them.
"""
import heed
import numpy as np

# "Hola mi nombre es Alex": five words, head size 8.
q = np.array([  # (Lq, D)
    [ 0.28992813,  0.85906143,  0.21495725,  -2.1308364,  1.02194232, -0.36578623, -0.59514708, -0.46351817],
    [ 1.87962513, -0.02568894, -0.51524885,  1.23020388, -0.67709758, -0.91531064,  0.16847735,   0.2347544],
    [ -0.2302133, -0.51736049,  0.22206796, -0.21667557,  0.98000167, -0.25227682,  1.05231845,  0.03994449],
    [-0.57217994, -0.13183049,  -0.7318054, -0.90349994,   0.4996766,  0.51383088,  1.47310469, -0.82662214],
    [ 0.71240792,  0.60729948,  1.27335944,  0.31328028, -1.56159438,  0.12807969, -0.73653941,  1.42056491],
])
k = np.array([  # (Lk, D)
    [-1.58231432, -0.19734611, -1.00242319, -0.03805725, -1.28308434,   0.8047156,  0.89423467,  0.17954249],
    [ 0.36907596, -1.14338458, -0.93052493,  -0.5720036,  0.65796214,  0.10875771,  0.39224373,  -0.1506256],
    [-0.09344037,  0.80946902,  0.72635436,  0.34858423,  0.60613819, -3.30908328, -1.47275347,   0.1766531],
    [-1.61318901,  0.30499548,  1.20877345,   0.9539165,  1.00297772,  1.20746745,  2.98391289, -0.11909048],
    [-1.08699605,  0.60438553,   0.6649686, -0.12199497, -0.52800097, -0.27451453, -0.15154801,  0.91716749],
])
v = np.array([  # (Lk, Dv)
    [-2.09988025,  0.01087252, -0.66951067, -1.98764867,  1.22440004,  0.12023061, -0.35682981, -0.18709454],
    [-0.05035914, -0.86577554,  2.00003202, -1.35962342,  0.48887871,  0.11802904, -0.21923461,  1.30231047],
    [-0.24799169,  0.22273024,  0.77994725, -0.55120025,  1.04939514, -0.61955624, -2.75513078, -1.22062181],
    [ 0.09765184, -0.98867081, -0.83415428, -0.02786349,  0.20555664,  0.42917456,  0.29869629, -0.32787272],
    [ 0.17731818,  0.85586311, -0.86626718,  -1.6316923,  1.91028236, -0.93733119, -1.97092547, -1.42572689],
])
printed_weights = np.array([  # (Lq, Lk)
    [        1.0,         0.0,         0.0,         0.0,         0.0],
    [ 0.31793058,  0.68206942,         0.0,         0.0,         0.0],
    [ 0.26506949,  0.48489931,   0.2500312,         0.0,         0.0],
    [ 0.24693096,  0.21313512,  0.01900443,  0.52092948,         0.0],
    [ 0.13352946,  0.05557004,  0.29655043,  0.06418016,  0.45016991],
])
printed_out = np.array([  # (Lq, Dv), made from another v: see below
    [-0.58386373, -0.38535245,  0.21646513,  0.49997813,  1.14483231,  0.35961925,  -0.6517341, -0.59169241],
    [-0.29159001,  0.49177799,  0.77658553,  1.39734939,  0.59765795,  -0.1503909, -0.30023651, -0.76811127],
    [-0.22086216, -0.11948308,  0.33831905,  0.79815492,  0.53506018,  0.01258004, -0.70790177, -0.80850755],
    [ 0.22481361,  0.90139912,  0.35280004,  1.58500633,  0.74560973,  0.37851397, -1.21530399,  0.45751405],
    [-0.12599258,  -0.3066491,  0.19512373,  0.90484334,  0.26112036,  0.48219163, -0.52767298,  0.06996178],
])


def attend(**options):
    """softmax(q k^T / sqrt(D) + mask) v for one head of one sentence: (Lq, Dv) and weights (Lq, Lk)."""
    r = heed.attention(*(x[None, None] for x in (q, k, v)), return_weights=True, **options)
    return r.out[0, 0], r.weights[0, 0]


np.set_printoptions(precision=8, floatmode="fixed", suppress=True, linewidth=120)
# 0 where query i may see key j, -inf where j comes later. Added to the scores, it leaves a weight of exactly 0.
out, weights = attend(mask=np.triu(np.full((5, 5), -np.inf), 1))
print("weights", weights, sep="\n")
print(f"largest difference from the printed attention matrix: {abs(weights - printed_weights).max():.1e} "
      "(it has 8 digits)\n")

built_in, _ = attend(causal=True)
print(f"the same without a mask in memory, causal=True: {abs(out - built_in).max():.1e} apart\n")

print("out", out, sep="\n")
print(f"largest difference from printed weights x printed v: {abs(out - printed_weights @ v).max():.1e}")
# The first word sees only itself, so the first row of any out is the first row of the v it was made from.
print(f"largest difference from the printed out: {abs(out - printed_out).max():.4f}. That one was made from another v "
      f"than the one printed:\nits first row begins {printed_out[0, 0]:.8f}, and v begins {v[0, 0]:.8f}.")
