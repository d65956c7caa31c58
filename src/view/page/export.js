// Saving the view: SVG and PNG by the same strokes, the numbers as CSV. Always in the colours of paper.

/** What the heads are called in names of files: layer-2-head-3, layer-2, heads-1.2+2.1. */
function headsInName() {
  const g = group(), heads = state.heads.map(n => g.head(n));
  if (['story', 'model'].includes(state.view) || g.layers * g.heads === 1) return '';
  if (heads.length === 1) return `layer-${heads[0].layer + 1}-head-${heads[0].head + 1}`;
  if (heads.length === g.heads && heads.every(({layer}) => layer === heads[0].layer))
    return `layer-${heads[0].layer + 1}`;
  const more = heads.length > 4 ? `+${heads.length - 4}-more` : '';
  return `heads-${heads.slice(0, 4).map(({layer, head}) => `${layer + 1}.${head + 1}`).join('+')}${more}`;
}

function fileName(ending) {
  const part = text =>
      text.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '').slice(0, 60);  // file systems take 255 bytes
  const what =
      state.view === 'steps' ? [`step-${state.step + 1}`, state.stepLayer >= 0 && `layer-${state.stepLayer + 1}`] : [
        part(group().name), part(group().measure), headsInName(),
        state.view === 'inside' && `query-${insideView.queryIndex() + 1}`
      ];
  return ['attention', state.view, ...what].filter(Boolean).join('-') + '.' + ending;
}

/** Calls draw() while colours are those of paper. */
function onPaper(draw) {
  paper.saving = true;
  try {
    return draw();
  } finally {
    paper.saving = false;
  }
}

function saveSvg() {
  save(
      fileName('svg'), onPaper(() => {
        const pen = new SvgPen(), {width, height} = viewOf[state.view].paint(pen);
        return pen.document(width, height, pageTitle());
      }),
      'image/svg+xml');
}

async function savePng() {
  const view = viewOf[state.view];
  const canvas = onPaper(() => {
    const {width, height} = view.paint(new SvgPen());
    const ratio = Math.min(2, 16000 / Math.max(width, height), Math.sqrt(2 * MOST_PIXELS / (width * height)));
    const canvas = document.createElement('canvas');
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext('2d');
    context.scale(ratio, ratio);
    context.fillStyle = ink().back;
    context.fillRect(0, 0, width, height);
    view.paint(new CanvasPen(context));
    return canvas;
  });
  save(fileName('png'), await new Promise(done => canvas.toBlob(done, 'image/png')));
}

function saveCsv() { save(fileName('csv'), csvText(viewOf[state.view].csv()), 'text/csv;charset=utf-8'); }
