// node wasm/test/read_lines.mjs HEED.wasm DIRECTORY BEAM GENERATE <lines >answers: heed.wasm with the model of a
// directory, a line after the other, as a page would have it: JSON of what the page is made of for each, and on
// standard error how long all of them took, with what a page shows of each and without.
import {readFileSync} from 'node:fs';

import {call, last, load} from './worker.mjs';

const [module, directory, beam, generate] = process.argv.slice(2);
const began = performance.now();
await load(module, directory);
const loaded = performance.now();
let tokens = 0, words = 0, searching = 0;
for (const text of readFileSync(0, 'utf8').split('\n').slice(0, -1)) {
  try {
    const asked = performance.now();
    const {data} = await call({what: 'run', text, beam: Number(beam), generate: Number(generate)});
    searching += Math.max(0, last.step - asked);
    tokens += data.steps.length;
    words += data.text.split(' ').length;
    console.log(JSON.stringify(data));
  } catch (error) {
    console.log(JSON.stringify({error: error.message}));
  }
}
const seconds = (performance.now() - loaded) / 1000;
console.error(
    `loaded in ${Math.round(loaded - began)} ms; ${tokens} tokens, ${words} words in ${seconds.toFixed(2)} s: ` +
    `${Math.round(words / seconds)} words/s with their pages, ${Math.round(1000 * words / searching)} without`);
