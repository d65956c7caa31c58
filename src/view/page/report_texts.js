// The texts of the page about a training, beside those that both pages have.
Object.assign(TEXTS, {
  training: {en: 'Training', es: 'Entrenamiento'},
  curves: {en: 'Curves', es: 'Curvas'},
  overTime: {en: 'Attention over time', es: 'La atención a lo largo del tiempo'},
  nothingYet: {en: 'nothing yet', es: 'todavía nada'},
  chartLabel: {en: '{name}: {curves}. Arrow keys read it.', es: '{name}: {curves}. Las flechas la leen.'},
  atLast: {en: '{name} {value} at last', es: '{name} {value} al final'},
  last: {en: 'last', es: 'último'},
  minutes: {en: '{value} min', es: '{value} min'},
  beforeTraining: {en: 'before training', es: 'antes de entrenar'},
  update: {en: 'update {value}', es: 'actualización {value}'},
  together: {en: 'Each point is the mean of {count} reports.', es: 'Cada punto es la media de {count} informes.'},
  timeIn: {en: 'Time in', es: 'Tiempo en'},
  timeInUpdates: {en: 'updates', es: 'actualizaciones'},
  timeInMinutes: {en: 'minutes', es: 'minutos'},
  axisScale: {en: 'Scale', es: 'Escala'},
  scaleByFigure: {en: 'by figure', es: 'según la figura'},
  scaleLinear: {en: 'linear', es: 'lineal'},
  scaleLogarithmic: {en: 'logarithmic', es: 'logarítmica'},
  tileLabel: {en: '{name} at {moment}: {figure} {value}. {role}', es: '{name} en {moment}: {figure} {value}. {role}'},
  hintTapWeight: {en: 'Tap a cell to see its weight.', es: 'Toque una celda para ver su peso.'},
  hintPointWeight: {en: 'Point at a cell to see its weight.', es: 'Señale una celda para ver su peso.'},
  weightOn: {en: 'Weight on', es: 'Peso en'},
  entropyInNats: {en: 'Entropy (nats)', es: 'Entropía (nats)'},
  distanceInPositions: {en: 'Mean distance (positions)', es: 'Distancia media (posiciones)'},
  moment: {en: 'Moment of the training', es: 'Momento del entrenamiento'},
  momentBefore: {en: 'the moment before', es: 'el momento anterior'},
  momentBehind: {en: 'the moment behind', es: 'el momento siguiente'},
  playMoments: {en: 'Play', es: 'Reproducir'},
  stopMoments: {en: 'Stop', es: 'Parar'},
  sentence: {en: 'Sentence', es: 'Frase'},
  sentenceOf: {en: '{n} of {count}', es: '{n} de {count}'},
  figure: {en: 'Figure', es: 'Cifra'},
  differenceTo: {en: 'Difference to', es: 'Diferencia con'},
  inItsOrder: {en: 'in its order', es: 'en su orden'},
  inItsOrderWhy: {en: 'maps by that figure, largest first', es: 'mapas según esa cifra, primero la mayor'},
  saveCurves: {en: 'Save the curves:', es: 'Guardar las curvas:'},
  storedRelative: {
    en: 'Weights are stored in 8 bits, relative to the largest of their row.',
    es: 'Los pesos se guardan en 8 bits, en relación con el mayor de su fila.'
  },
  keyMoments: {en: 'moments', es: 'momentos'},
  keyPlay: {en: 'play', es: 'reproducir'},
  keyReadCurve: {en: 'move, or read a curve', es: 'moverse o leer una curva'},
  keyGoToMoment: {en: 'go to that moment', es: 'ir a ese momento'},

  // What heed itself writes into the data of the page.
  given_trainingOf: {en: 'Training of {name}', es: 'Entrenamiento de {name}'},
  given_ofPairs: {
    en: '{shape}; {training} training and {validation} validation pairs',
    es: '{shape}; {training} pares de entrenamiento y {validation} de validación'
  },
  given_factUpdate: {en: 'Update', es: 'Actualización'},
  given_factEpoch: {en: 'Epoch', es: 'Época'},
  given_factMinutes: {en: 'Minutes of training', es: 'Minutos de entrenamiento'},
  given_factLoss: {en: 'Best validation loss', es: 'Mejor pérdida de validación'},
  given_factBleu: {en: 'Best BLEU', es: 'Mejor BLEU'},
  given_factBroken: {en: 'Lines of the log that cannot be read', es: 'Líneas del registro que no se pueden leer'},
  given_atUpdate: {en: '{value} at update {update}', es: '{value} en la actualización {update}'},
  given_loss: {en: 'Loss', es: 'Pérdida'},
  given_lossNote: {
    en: 'Nats a token, without label smoothing; in training with dropout.',
    es: 'Nats por token, sin suavizado de etiquetas; en el entrenamiento, con dropout.'
  },
  given_lossNoteAveraged: {
    en: 'Nats a token, without label smoothing; in training with dropout. Averaged: of the mean of the last ' +
        'checkpoints.',
    es: 'Nats por token, sin suavizado de etiquetas; en el entrenamiento, con dropout. Promediada: la de la media de ' +
        'los últimos puntos de control.'
  },
  given_bleu: {en: 'Validation BLEU', es: 'BLEU de validación'},
  given_bleuNote: {
    en: '{count} pairs from all over the validation data, decoded greedily with the weights as they are.',
    es: '{count} pares de todos los datos de validación, descodificados de forma voraz con los pesos tal como están.'
  },
  given_perplexity: {en: 'Perplexity', es: 'Perplejidad'},
  given_perplexityNote:
      {en: 'exp(loss) of the validation text, a token.', es: 'exp(pérdida) del texto de validación, por token.'},
  given_learningRate: {en: 'Learning rate', es: 'Tasa de aprendizaje'},
  given_gradientNorm: {en: 'Gradient norm', es: 'Norma del gradiente'},
  given_gradientNote: {en: 'Of all gradients together.', es: 'De todos los gradientes juntos.'},
  given_gradientNoteClipped: {
    en: 'Of all gradients together, before they are clipped to {value}.',
    es: 'De todos los gradientes juntos, antes de recortarlos a {value}.'
  },
  given_curveTraining: {en: 'training', es: 'entrenamiento'},
  given_curveValidation: {en: 'validation', es: 'validación'},
  given_curveAveraged: {en: 'averaged', es: 'promediada'},
  given_curveLearningRate: {en: 'learning rate', es: 'tasa de aprendizaje'},
  given_curveGradientNorm: {en: 'gradient norm', es: 'norma del gradiente'},
  given_watchedEncoder:
      {en: 'Each token of the input looks at the input.', es: 'Cada token de la entrada mira la entrada.'},
  given_watchedDecoder: {
    en: 'Each token of the reference looks at itself and those before it, to find the next one.',
    es: 'Cada token de la referencia se mira a sí mismo y a los anteriores, para hallar el siguiente.'
  },
  given_watchedCross: {
    en: 'Where the decoder looks in the input while it is to produce each token of the reference.',
    es: 'Adónde mira el decodificador en la entrada mientras ha de producir cada token de la referencia.'
  },
  given_watchedText: {
    en: 'Each token looks at itself and those before it, to find the next one.',
    es: 'Cada token se mira a sí mismo y a los anteriores, para hallar el siguiente.'
  },
});
