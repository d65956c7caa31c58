// Of thousands of tokens a view that has an element for each shows a few: those that matter, or those around one place.

const MOST_ELEMENTS = 400;
const NEAR = 80;  // of more than those, around one place

/** The places of the largest sizes above 0, ascending; all places where they are few. */
function largestPlaces(sizes) {
  const places = [...sizes.keys()];
  if (places.length <= MOST_ELEMENTS) return places;
  const size = i => Math.abs(sizes[i]) || 0;
  const some = places.filter(i => size(i) > 0).sort((a, b) => size(b) - size(a) || a - b).slice(0, MOST_ELEMENTS);
  return some.sort((a, b) => a - b);
}

/** [first, end] of so many tokens: all of them where they are few, else those around place `at`. */
function rangeAround(at, count) {
  if (count <= MOST_ELEMENTS) return [0, count];
  const first = Math.max(0, Math.min(at - NEAR / 2, count - NEAR));
  return [first, first + NEAR];
}

/** Elements of those places, with a sign where some are missing between them. */
function withGaps(elements, places) {
  const gap = () => make('span', {class: 'gap', 'aria-hidden': 'true'}, '\u2026');
  return elements.flatMap((element, n) => (n && places[n] !== places[n - 1] + 1 ? [gap(), element] : [element]));
}

/** The line that says what is shown; nothing where all are. */
function leftOut(places, count) {
  return places.length < count ? make('p', {class: 'faint left-out'}, tr('fewLargest', {few: places.length, count})) :
                                 '';
}

function leftOutOf([first, end], count) {
  return end - first < count ? make('p', {class: 'faint left-out'}, tr('fewAround', {first: first + 1, end, count})) :
                               '';
}
