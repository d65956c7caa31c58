// A module of heed's under node, by the very script that the page's worker runs.
import {readdirSync, readFileSync} from 'node:fs';
import {deflateSync} from 'node:zlib';

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
export const last = {
  step: 0
};  // when something was written
globalThis.postMessage = message => {
  if (message.written === undefined)
    answered(message);
  else
    last.step = performance.now();
};

export const call = message => new Promise((resolve, reject) => {
  answered = ({answer, error}) => (error === undefined ? resolve(answer) : reject(new Error(error)));
  heard({data: message});
});

/** A new worker with the module and the files of a model's directory whose names match. */
export async function load(module, directory, names = /\.(json|txt|model|spm|safetensors)$/) {
  const patterns = source('live_patterns.js');
  (0, eval)([
    functionOf(source('data.js'), 'inflated'),
    functionOf(patterns, 'javascriptOf'),
    functionOf(patterns, 'foundIn'),
    `(${functionOf(source('live_worker.js'), 'answerInWorker')})();`,
  ].join('\n'));
  const inPlanes = bytes => Buffer.concat([0, 1].map(first => bytes.filter((_, i) => i % 2 === first)));
  const block = path => {
    const bytes = readFileSync(path);
    return {text: deflateSync(path.endsWith('.safetensors') ? inPlanes(bytes) : bytes).toString('base64')};
  };
  const files =
      readdirSync(directory).filter(name => names.test(name)).map(name => [name, block(`${directory}/${name}`)]);
  await call({what: 'load', module: block(module), files});
}
