// Saving the view: SVG and PNG by the same strokes, the numbers as CSV.
function save(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type}));
  const link = make('a', {href: address, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function fileName(ending) {
  const part = text => text.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '').slice(0, 60);  // file systems take 255 bytes
  return ['attention', state.view, state.view === 'steps' ? `step-${state.step + 1}` : part(group().name)].filter(Boolean).join('-') + '.' + ending;
}

function svgOfView() {
  const pen = new SvgPen();
  const {width, height} = viewOf[state.view].paint(pen);
  return {text: pen.document(width, height, pageTitle()), width, height};
}

function saveSvg() { save(fileName('svg'), svgOfView().text, 'image/svg+xml'); }

async function savePng() {
  const view = viewOf[state.view];
  const {width, height} = view.paint(new SvgPen());
  const ratio = Math.min(2, 16000 / Math.max(width, height));
  const canvas = document.createElement('canvas');
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext('2d');
  context.scale(ratio, ratio);
  context.fillStyle = ink().back;
  context.fillRect(0, 0, width, height);
  view.paint(new CanvasPen(context));
  save(fileName('png'), await new Promise(done => canvas.toBlob(done, 'image/png')));
}

function csvField(value) {
  if (typeof value === 'number') return String(Number(value.toPrecision(7)));
  const text = String(value ?? '');
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function saveCsv() {
  const lines = viewOf[state.view].csv().map(row => row.map(csvField).join(','));
  save(fileName('csv'), lines.join('\r\n') + '\r\n', 'text/csv;charset=utf-8');
}
