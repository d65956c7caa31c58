// Saving the view: SVG and PNG by the same strokes, the numbers as CSV.

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

function saveCsv() {
  save(fileName('csv'), csvText(viewOf[state.view].csv()), 'text/csv;charset=utf-8');
}
