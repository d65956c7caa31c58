// The language of the page: what the reader chose in the foot, or else the first of the browser's that it speaks.
const LANGUAGES = {
  en: 'English',
  es: 'Español'
};

function preferredLanguage() {
  const wanted = [memory.read('heed-language'), ...navigator.languages];
  return wanted.map(name => name?.slice(0, 2).toLowerCase()).find(name => Object.hasOwn(LANGUAGES, name)) ?? 'en';
}

function setLanguage(name) {
  language = name;
  document.documentElement.lang = name;
  for (const [kind, text] of [['wait', 'unpacking'], ['cut', 'fileCut']]) {
    const line = document.querySelector(`#view > .${kind}`);
    if (line) line.textContent = tr(text);
  }
}

/** The reader chooses: what stands around the views is written anew by frame(), the rest by draw(). */
function speak(name) {
  memory.write('heed-language', name);
  setLanguage(name);
  frame();
  return draw();
}

function languageTool() { return choice(tr('speak'), Object.entries(LANGUAGES), language, speak, name => name); }

setLanguage(preferredLanguage());
