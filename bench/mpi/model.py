"""What updates and attention over ranks send, by formulas, and how long it takes on a link by the alpha-beta model: a
message of n bytes takes latency + n / bandwidth seconds, and a rank's messages leave one after another.

docs/machines.md has the formulas in words. N ranks, P parameters in float, G batches an update, a power of two."""
import math
import types

BLOCK = 16384   # parameters; slices are cut at multiples
FIGURES = 5     # of the log, summed over ranks, in double
SHARED = 18     # bytes that rank 0 tells all: the clock twice, whether to save, whether to stop


class Link:
    def __init__(self, latency, bandwidth):
        self.latency, self.bandwidth = latency, bandwidth  # seconds; bytes a second

    @staticmethod
    def of_ping_pong(rows):
        """From one-way times of messages, the shortest and the longest."""
        short, long = rows[0], rows[-1]
        bandwidth = (long["bytes"] - short["bytes"]) / (long["seconds"] - short["seconds"])
        return Link(short["seconds"] - short["bytes"] / bandwidth, bandwidth)

    def seconds(self, rounds, size):
        """Of `rounds` messages one after another, with `size` bytes in all."""
        return rounds * self.latency + size / self.bandwidth


# Updates -------------------------------------------------------------------------------------------------------------

def halves(n):
    return n & (n - 1) == 0


def dealt(count, rank, n):
    """[begin, end) of the rank's part of `count`."""
    return -(-rank * count // n), -(-(rank + 1) * count // n)


def whole_parts(begin, end):
    """Of how many parts of a binary tree the leaves [begin, end) consist."""
    parts = 0
    while begin < end:
        size = 1
        while begin % (2 * size) == 0 and begin + 2 * size <= end:
            size *= 2
        begin, parts = begin + size, parts + 1
    return parts


def slice_size(length, rank, n, block):
    begin, end = dealt(-(-length // block), rank, n)
    return min(end * block, length) - min(begin * block, length)


def summed(n, length, batches, block, width):
    """Bytes that each rank sends to sum `length` numbers where N is no power of two: of its parts of the tree the
    slices of the others."""
    return [whole_parts(*dealt(batches, rank, n)) * width * (length - slice_size(length, rank, n, block))
            for rank in range(n)]


def update_bytes(n, parameters, batches):
    """Of all ranks."""
    blocks = -(-parameters // BLOCK)
    gathered = (n - 1) * (4 * parameters + 8 * FIGURES + 8 * blocks + SHARED)
    if halves(n):
        return gathered + (n - 1) * (4 * parameters + 8 * FIGURES)
    return gathered + sum(summed(n, parameters, batches, BLOCK, 4)) + sum(summed(n, FIGURES, batches, 1, 8))


def update_messages(n):
    """Of all ranks: five sums or gatherings, four broadcasts. Where there are fewer figures than ranks, some have none
    to be sent."""
    if halves(n):
        return 5 * n * int(math.log2(n)) + 4 * (n - 1)
    without = sum(slice_size(FIGURES, rank, n, 1) == 0 for rank in range(n))
    return 5 * n * (n - 1) + 4 * (n - 1) - without * (n - 1)


class Ranks:
    """Clocks of N ranks whose messages take as long as a link says."""

    def __init__(self, n, link):
        self.n, self.link = n, link
        self.now, self.free = [0.0] * n, [0.0] * n  # and when the last message of each has left

    def send(self, rank, size):
        """When it is there."""
        self.free[rank] = max(self.free[rank], self.now[rank]) + size / self.link.bandwidth
        return self.free[rank] + self.link.latency

    def exchange(self, to, size):
        """Rank r sends size(r) bytes to rank to(r), and waits for what comes to it."""
        arrivals = {to(rank): self.send(rank, size(rank)) for rank in range(self.n)}
        self.now = [max(self.now[rank], arrivals[rank]) for rank in range(self.n)]

    def broadcast(self, size):
        """From rank 0 by a binomial tree, the farthest first."""
        bit = 1 << (self.n - 1).bit_length()
        while bit := bit >> 1:
            for rank in range(0, self.n - bit, 2 * bit):
                self.now[rank + bit] = max(self.now[rank + bit], self.send(rank, size))

    def reduce_scatter(self, length, width, block, batches):
        if halves(self.n):
            for step in range(self.n.bit_length() - 1):
                self.exchange(lambda rank, bit=1 << step: rank ^ bit, lambda _, s=step: width * length / 2**(s + 1))
            return
        parts = [whole_parts(*dealt(batches, rank, self.n)) for rank in range(self.n)]
        for distance in range(1, self.n):
            self.exchange(lambda rank, d=distance: (rank + d) % self.n, lambda rank, d=distance:
                          parts[rank] * width * slice_size(length, (rank + d) % self.n, self.n, block))

    def all_gather(self, length, width, block):
        if halves(self.n):
            for step in reversed(range(self.n.bit_length() - 1)):
                self.exchange(lambda rank, bit=1 << step: rank ^ bit, lambda _, s=step: width * length / 2**(s + 1))
            return
        for distance in range(1, self.n):
            self.exchange(lambda rank, d=distance: (rank + d) % self.n,
                          lambda rank: width * slice_size(length, rank, self.n, block))

    def update(self, parameters, batches):
        self.reduce_scatter(parameters, 4, BLOCK, batches)
        self.reduce_scatter(FIGURES, 8, 1, batches)
        self.all_gather(FIGURES, 8, 1)
        self.all_gather(-(-parameters // BLOCK), 8, 1)  # of the norm
        self.broadcast(8)                               # the clock
        self.all_gather(parameters, 4, BLOCK)
        for size in (8, 1, 1):
            self.broadcast(size)


def update_seconds(link, n, parameters, batches):
    """Of communication an update, where all ranks compute equally long: of the last of a few, since a rank that rank 0
    tells last begins the next one late."""
    ranks, before = Ranks(n, link), 0
    for _ in range(4):
        before = ranks.now[0]
        ranks.update(parameters, batches)
    return ranks.now[0] - before


# Attention -----------------------------------------------------------------------------------------------------------

def call(meeting, forward, n, sizes):
    """Of one batch entry, as many key heads as query heads and at least as many as ranks, even pieces, no causal rule,
    with lse. Bytes and messages are of all ranks; `exposed` is the share of the arithmetic that no message hides: that
    of the last head, of the last keys of each head, or all of it."""
    heads, length = sizes["heads"], sizes["length"]
    keys = 4 * 2 * heads * length * sizes["width"]   # bytes of keys and values, K; as many of queries and outputs, Q
    lse = 8 * heads * length                         # with lse_low
    told = n * 8                                     # a word of each rank to the next: do the options agree
    if meeting == "ring" or (meeting == "exact" and forward):
        times = 1 if forward else 2
        size, messages = times * (n - 1) * keys, times * n * (n - 1) * heads
        rounds = heads if meeting == "exact" else heads * (n - 1) if forward else heads * n
        exposed = 1 / heads if meeting == "exact" else 1 / n
    else:
        tensors = 5 if forward else 9                # q, k, v, out, lse; and their gradients, and that of out
        share = (n - 1) / n
        size = int(share * ((2 if forward else 4) * keys + lse))
        deals = heads // n if meeting == "exact" else 1
        messages, rounds = tensors * n * (n - 1) * deals, tensors * (n - 1) * deals
        exposed = 1
    return types.SimpleNamespace(bytes=size + told, messages=messages + n, rounds=rounds + 1, exposed=exposed)


# Outlook -------------------------------------------------------------------------------------------------------------

OUTLOOK_LINKS = {"10 Gbit/s": Link(20e-6, 1.1e9), "100 Gbit/s": Link(3e-6, 11e9)}
OUTLOOK_PARAMETERS = [5_000_000, 100_000_000]
OUTLOOK_RANKS = [4, 16, 64, 256, 1024]
