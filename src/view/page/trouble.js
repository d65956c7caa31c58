// What a page says, in one line, when it cannot be shown. Other scripts come after this one: their errors end here,
// too.

/** The file is not what heed wrote, or the browser lacks something: the reader can do something about it. */
class Trouble extends Error {}

function showTrouble(error) {
  const line = document.createElement('p');
  line.className = 'wait trouble';
  line.setAttribute('role', 'alert');
  line.textContent = error instanceof Trouble ?
      error.message :
      tr('pageFailed', {error: error?.message ?? String(error), again: tr('writeAgain')});
  const maps = document.getElementById('maps');  // of a page about a training
  if (maps) maps.hidden = false;
  document.getElementById('view').replaceChildren(line);
}

addEventListener('error', event => {
  showTrouble(event.error ?? event.message);
  if (event.error instanceof Trouble) event.preventDefault();  // it has been told
});
addEventListener('unhandledrejection', event => {
  showTrouble(event.reason);
  if (event.reason instanceof Trouble) event.preventDefault();
});
