// node wasm/test/read_lines.mjs HEED.wasm DIRECTORY BEAM GENERATE <lines >answers: heed.wasm with the model of a
// directory of heed's, a line after the other, as a page would have it: JSON of its steps and text for each, and on
// standard error how long all of them took, with what a page shows of each and without. By the very script that the
// page's worker runs.
import {readFileSync} from 'node:fs';
import {deflateSync} from 'node:zlib';

const [module, directory, beam, generate] = process.argv.slice(2);
const page = new URL('../../src/view/page/', import.meta.url);
const source = name => readFileSync(new URL(name, page), 'utf8');
const functionOf = (text, name) => {
  const begin = text.search(new RegExp(`(async )?function ${name}\\(`)), end = text.indexOf('\n}\n', begin) + 2;
  return text.slice(begin, end);
};

/** What is posted to a worker and by it, without one. */
let heard = null, answered = null;
globalThis.addEventListener = (name, listener) => {
  heard = listener;
};
let lastStep = 0;
globalThis.postMessage = message => {
  if (message.written === undefined)
    answered(message);
  else
    lastStep = performance.now();
};
(0, eval)(`${functionOf(source('data.js'), 'inflated')}\n(${functionOf(source('live_worker.js'), 'answerInWorker')})();`);
const call = message => new Promise((resolve, reject) => {
  answered = ({answer, error}) => (error === undefined ? resolve(answer) : reject(new Error(error)));
  heard({data: message});
});

const block = path => ({text: deflateSync(readFileSync(path)).toString('base64')});
const files = ['config.json', 'vocabulary.txt', 'model.safetensors'].map(name => [name, block(`${directory}/${name}`)]);
const began = performance.now();
await call({what: 'load', module: block(module), files});
const loaded = performance.now();
let tokens = 0, words = 0, searching = 0;
for (const text of readFileSync(0, 'utf8').split('\n').slice(0, -1)) {
  try {
    const asked = performance.now();
    const {data} = await call({what: 'run', text, beam: Number(beam), generate: Number(generate)});
    searching += Math.max(0, lastStep - asked);
    tokens += data.steps.length;
    words += data.text.split(' ').length;
    console.log(JSON.stringify({text: data.text, steps: data.steps.map(step => step.token)}));
  } catch (error) {
    console.log(JSON.stringify({error: error.message}));
  }
}
const seconds = (performance.now() - loaded) / 1000;
console.error(
    `loaded in ${Math.round(loaded - began)} ms; ${tokens} tokens, ${words} words in ${seconds.toFixed(2)} s: ` +
    `${Math.round(words / seconds)} words/s with their pages, ${Math.round(1000 * words / searching)} without`);
