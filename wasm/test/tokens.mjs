// node wasm/test/tokens.mjs TOKENS.wasm FOLDER: the tokenizers in the directories of a folder, each with an
// expected.json that says the ids and decoded texts of hard texts (CONTRIBUTING.md): whether a page finds the same.
import {existsSync, readdirSync, readFileSync} from 'node:fs';

import {call, load} from './worker.mjs';

const [module, folder] = process.argv.slice(2);
let seen = 0, wrong = 0;
for (const directory of readdirSync(folder).map(name => `${folder}/${name}`)) {
  if (!existsSync(`${directory}/expected.json`)) continue;
  const {cases} = JSON.parse(readFileSync(`${directory}/expected.json`, 'utf8'));
  // Expectations are of tokenizer.json alone: with tokenizer_config.json, the tokenizer's class replaces parts of it.
  await load(module, directory, existsSync(`${directory}/tokenizer.json`) ? /^tokenizer\.json$/ : undefined);
  const run = async (text, special) => (await call({what: 'run', text, beam: 0, generate: special})).data;
  for (const {text, ids, ids_plain: plain, decoded, decoded_skip_special: skipped} of cases) {
    const [found, bare] = [await run(text, 1), await run(text, 0)];
    const got = [found.ids, bare.ids, found.texts.decoded, found.texts.plain],
          expected = [ids, plain, decoded, skipped];
    ++seen;
    if (JSON.stringify(got) === JSON.stringify(expected)) continue;
    ++wrong;
    console.error(`${directory}: ${JSON.stringify(text)}: ${JSON.stringify(got)}, not ${JSON.stringify(expected)}`);
  }
}
console.log(`${seen} texts, ${wrong} wrong`);
process.exit(seen === 0 || wrong > 0 ? 1 : 0);
