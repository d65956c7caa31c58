// Of thousands of tokens a view that has an element for each shows a few: those that matter, or those around one place.

const MOST_ELEMENTS = 400;

/** The places of the largest sizes above 0, ascending; all places where they are few. */
function largestPlaces(sizes, most = MOST_ELEMENTS) {
  const places = [...sizes.keys()];
  if (places.length <= most) return places;
  const size = i => Math.abs(sizes[i]) || 0;
  const some = places.filter(i => size(i) > 0).sort((a, b) => size(b) - size(a) || a - b).slice(0, most);
  return some.sort((a, b) => a - b);
}

/** [first, end] of so many tokens, with place `at` in the middle where there is room. */
function rangeAround(at, count, most = MOST_ELEMENTS) {
  const first = Math.max(0, Math.min(at - Math.floor(most / 2), count - most));
  return [first, Math.min(count, first + most)];
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
