"""The plot of docs/machines.md: communication an update over the number of ranks, measured beside the model, and what
the model says of real networks. SVG by hand, readable on light and dark."""
import math

import model

WIDTH, HEIGHT, LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT = 900, 360, 60, 40, 330, 260
COLOURS = ["#c2571a", "#2f7fb8", "#7a4fb0", "#3d8b4a"]


class Panel:
    """Two logarithmic axes."""

    def __init__(self, left, title, ranks, milliseconds):
        self.left, self.ranks, self.milliseconds = left, ranks, milliseconds
        self.parts = [f'<text x="{left}" y="{TOP - 16}" class="title">{title}</text>']
        for n in ranks:
            x = self.x(n)
            self.parts.append(f'<text x="{x:.1f}" y="{TOP + PLOT_HEIGHT + 18}" text-anchor="middle">{n:,}</text>')
        for tick in milliseconds:
            y = self.y(tick)
            self.parts.append(f'<line x1="{left}" x2="{left + PLOT_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
            self.parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
        self.parts.append(f'<text x="{left + PLOT_WIDTH / 2}" y="{TOP + PLOT_HEIGHT + 38}" text-anchor="middle">'
                          'ranks</text>')
        self.parts.append(f'<text x="{left - 44}" y="{TOP - 16}">ms</text>')

    @staticmethod
    def share(value, values):
        low, high = math.log(values[0]), math.log(values[-1])
        return (math.log(value) - low) / (high - low)

    def x(self, n):
        return self.left + PLOT_WIDTH * self.share(n, self.ranks)

    def y(self, ms):
        return TOP + PLOT_HEIGHT * (1 - self.share(ms, self.milliseconds))

    def line(self, points, colour, label, dashed=False, below=False):
        path = " ".join(f"{self.x(n):.1f},{self.y(ms):.1f}" for n, ms in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        n, ms = points[-1]
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        y = self.y(ms) + (34 if below else -8)
        self.parts.append(f'<text x="{self.x(n) - 4:.1f}" y="{y:.1f}" text-anchor="end" style="fill: {colour}">{label}'
                          '</text>')

    def dots(self, points, colour):
        self.parts += [f'<circle cx="{self.x(n):.1f}" cy="{self.y(ms):.1f}" r="4" fill="{colour}"/>'
                       for n, ms in points]


def measured_panel(network):
    panel = Panel(LEFT, f"{network['parameters'] / 1e6:.2f} million parameters: measured (dots), model (lines)",
                  [2, 3, 4, 5, 6, 7, 8], [100, 300, 1000, 3000])
    for i, ping_pong in enumerate(network["links"]):
        link = model.Link.of_ping_pong(ping_pong)
        predicted = [(row["ranks"], 1e3 * model.update_seconds(link, row["ranks"], network["parameters"],
                                                               network["batches"])) for row in network["updates"]]
        panel.line(predicted, COLOURS[i], f"{8e-6 * link.bandwidth:.0f} Mbit/s, {1e3 * link.latency:.2g} ms",
                   below=i > 0)
        panel.dots([(row["ranks"], 1e3 * (row["seconds"][i] - row["bare_seconds"])) for row in network["updates"]],
                   COLOURS[i])
    return panel


def outlook_panel():
    panel = Panel(LEFT + PLOT_WIDTH + 130, "The model on real networks", [2, 4, 16, 64, 256, 1024],
                  [1, 10, 100, 1000])
    ranks = [2**k for k in range(1, 11)]
    for i, parameters in enumerate(model.OUTLOOK_PARAMETERS):
        for j, (name, link) in enumerate(model.OUTLOOK_LINKS.items()):
            panel.line([(n, 1e3 * model.update_seconds(link, n, parameters, n)) for n in ranks], COLOURS[2 * i + j],
                       f"{parameters / 1e6:.0f} million, {name}", dashed=i == 0)
    return panel


def svg(network):
    parts = measured_panel(network).parts + outlook_panel().parts
    style = ("text { font: 13px sans-serif; fill: #777 } .title { font-weight: bold } "
             ".grid { stroke: #999; stroke-opacity: .35 }")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="Communication an update over the number of ranks">\n<style>{style}</style>\n'
            + "\n".join(parts) + "\n</svg>\n")
