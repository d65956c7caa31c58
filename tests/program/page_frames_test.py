"""Processor time of a frame on the page of 5,000 tokens, while a reader scrolls and points."""
import browser
from page_long_test import Long

MOST = 0.033  # seconds


class Cost(Long):
    def spent(self):
        """Seconds of the main thread's processor time so far."""
        return {m["name"]: m["value"] for m in self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}["TaskDuration"]

    def frames(self, scroller, by, count=24):
        """Seconds of the main thread's processor time for each frame of a scroll."""
        self.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        self.addCleanup(self.driver.execute_cdp_cmd, "Performance.disable", {})
        out = []
        for _ in range(count):
            before = self.spent()
            self.driver.execute_async_script("""
                const [selector, x, y, done] = arguments;
                document.querySelector(selector).scrollBy(x, y);
                requestAnimationFrame(() => requestAnimationFrame(done));""", scroller, *by)
            out.append(self.spent() - before)
        return out

    def quickest(self, measure, most=max):
        """What is slow is slow every time; a machine that others keep busy is not."""
        for _ in range(3):
            costs = measure()
            if most(costs) < MOST:
                break
        return costs

    def test_scrolling_is_smooth(self):
        costs = {}
        for name, where, scroller, by in [
                ("map", "view=head&display=map&zoom=14&at=1000,1000", ".mapwindow", (70, 130)),
                ("map of small cells", "view=head&display=map&zoom=3&at=1000,1000", ".mapwindow", (70, 130)),
                ("map of cells below a pixel", "view=head&display=map&zoom=0.7&at=1000,1000", ".mapwindow", (40, 60)),
                ("map with numbers", "view=head&display=map&zoom=38&at=1000,1000&query=10&key=20", ".mapwindow", (70, 130)),
                ("lines", "view=head&heads=0", ".bipartite", (0, 160)),
                ("lines of two heads, a token pinned", "view=head&heads=0,1&query=3", ".bipartite", (0, 160)),
                ("story", "view=story", ".bipartite", (0, 160)),
                ("text", "view=head&display=text", ".flow", (0, 160))]:
            def measure():
                self.open(where)
                self.written()
                return self.frames(scroller, by)
            frames = self.quickest(measure)
            costs[name] = f"{1000 * sum(frames) / len(frames):.1f} ms, at most {1000 * max(frames):.1f} ms"
            with self.subTest(name):
                self.assertLess(max(frames), MOST, frames)
        print("\nprocessor time of a frame:", costs)

    def test_pointing_is_quick(self):
        for where, target in [("view=head&display=map", "#map"), ("view=head&heads=0", ".tokens"), ("view=head&display=text", ".flow")]:
            def measure():
                self.open(where)
                x, y = self.js("const b = arguments[0].getBoundingClientRect(); return [b.left + 60, b.top + 120]", self.one(target))
                self.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
                costs = []
                for step in range(12):
                    before = self.spent()
                    self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y + 17 * step})
                    self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
                    costs.append(self.spent() - before)
                self.driver.execute_cdp_cmd("Performance.disable", {})
                return costs
            # A cost covers the frame that takes the pointer and the next one. One step may include a garbage collection.
            most = lambda costs: sorted(costs)[-2]
            costs = self.quickest(measure, most)
            with self.subTest(where):
                self.assertLess(most(costs), MOST, costs)
                self.assertTrue(self.texts(".detail h2"))


if __name__ == "__main__":
    browser.main()
