// Every text of the page, in each language that it speaks. {name} is a value, [word:label] a word of the glossary.
// A text that counts has one form for 1 and another; {n} is what it counts.
const TEXTS = {
  // The frame
  attention: {en: 'Attention', es: 'Atención'},
  viewTabs: {en: 'View', es: 'Vista'},
  groupTabs: {en: 'Attention', es: 'Atención'},
  view_story: {en: 'Story', es: 'Relato'},
  view_model: {en: 'Model', es: 'Modelo'},
  view_head: {en: 'Head', es: 'Cabeza'},
  view_inside: {en: 'Inside', es: 'Por dentro'},
  view_steps: {en: 'Steps', es: 'Pasos'},
  view_compare: {en: 'Compare', es: 'Comparar'},
  // What heed itself calls attention in the data of a page; anything else there is the reader's.
  given_encoder: {en: 'Encoder', es: 'Codificador'},
  given_decoder: {en: 'Decoder', es: 'Decodificador'},
  given_cross: {en: 'Cross', es: 'Cruzada'},
  given_self: {en: 'Self-attention', es: 'Autoatención'},
  given_encoderTitle: {
    en: 'Self-attention of the encoder: each token of the input looks at the input.',
    es: 'Autoatención del codificador: cada token de la entrada mira la entrada.'
  },
  given_decoderTitle: {
    en: 'Self-attention of the decoder: each token looks at itself and those before it, to find the next one.',
    es: 'Autoatención del decodificador: cada token se mira a sí mismo y a los anteriores, para hallar el siguiente.'
  },
  given_crossTitle: {
    en: 'Cross-attention: where the decoder looks in the input while it produces each token.',
    es: 'Atención cruzada: adónde mira el decodificador en la entrada mientras produce cada token.'
  },
  given_textTitle: {
    en: 'Self-attention: each token looks at all tokens of the text.',
    es: 'Autoatención: cada token mira todos los tokens del texto.'
  },
  given_causalTitle: {
    en: 'Self-attention: each token looks at itself and those before it, to find the next one.',
    es: 'Autoatención: cada token se mira a sí mismo y a los anteriores, para hallar el siguiente.'
  },
  given_pictureTitle: {
    en: 'Self-attention: the class token and each patch look at all of them.',
    es: 'Autoatención: el token de clase y cada parche los miran todos.'
  },
  given_basic: {en: 'Basic self-attention', es: 'Autoatención básica'},
  given_basicTitle: {
    en: 'softmax(X Xᵀ) X: each word is query, key and value at once',
    es: 'softmax(X Xᵀ) X: cada palabra es a la vez consulta, clave y valor'
  },
  given_basicNote: {
    en: 'Four numbers a word, chosen by hand so that nouns and verbs that belong together point the same way. ' +
        'There is nothing to learn here and no scale: a word attends to the words that its vector resembles. ' +
        'Both “the” have small vectors, so they match nothing in particular and look at all words nearly alike; ' +
        'and they have the same output, since nothing says where in the sentence a word stands.',
    es: 'Cuatro números por palabra, elegidos a mano para que los nombres y verbos que van juntos apunten en la ' +
        'misma dirección. Aquí no hay nada que aprender ni escala: una palabra atiende a las palabras a las que ' +
        'se parece su vector. Los dos “the” tienen vectores pequeños, así que no encajan con nada en particular ' +
        'y miran a todas las palabras casi por igual; y tienen la misma salida, pues nada dice en qué lugar de ' +
        'la frase está una palabra.'
  },
  given_circle: {en: 'Dictionary on a circle', es: 'Diccionario en un círculo'},
  given_circleTitle: {en: 'A dictionary that is looked up softly', es: 'Un diccionario que se consulta de forma suave'},
  given_circleNote: {
    en: 'Eleven words stand on a circle. Spanish words are keys, English words are values, and each Spanish word ' +
        'asks. PERRO is closest to itself, so DOG gets the largest weight; but the circle says nothing about ' +
        'meaning, and the weights are nearly even.',
    es: 'Once palabras están en un círculo. Las españolas son claves, las inglesas son valores, y cada palabra ' +
        'española pregunta. PERRO está más cerca de sí misma, así que DOG recibe el mayor peso; pero el círculo ' +
        'no dice nada del significado, y los pesos son casi iguales.'
  },
  given_causal: {en: 'Causal mask', es: 'Máscara causal'},
  given_causalMaskTitle:
      {en: 'Each word sees itself and the words before it', es: 'Cada palabra se ve a sí misma y a las anteriores'},
  given_causalNote: {
    en: 'The score of a word that comes later is replaced by −∞ before the softmax, so its weight is exactly 0. ' +
        'The first word can look only at itself: its output is its own value.',
    es: 'La puntuación de una palabra posterior se sustituye por −∞ antes del softmax, así que su peso es ' +
        'exactamente 0. La primera palabra solo puede mirarse a sí misma: su salida es su propio valor.'
  },
  // What is odd about the weights of a head.
  given_rowSums: {
    en: {
      one: '{n} row does not sum to 1 (query {query} sums to {sum})',
      other: '{n} rows do not sum to 1 (query {query} sums to {sum})'
    },
    es: {
      one: '{n} fila no suma 1 (la consulta {query} suma {sum})',
      other: '{n} filas no suman 1 (la consulta {query} suma {sum})'
    }
  },
  given_rowsZero: {
    en: {one: '{n} row is all zero', other: '{n} rows are all zero'},
    es: {one: '{n} fila es toda ceros', other: '{n} filas son todo ceros'}
  },
  given_notFinite: {
    en: {one: '{n} weight is not finite', other: '{n} weights are not finite'},
    es: {one: '{n} peso no es finito', other: '{n} pesos no son finitos'}
  },
  given_below0: {
    en: {one: '{n} weight is below 0', other: '{n} weights are below 0'},
    es: {one: '{n} peso es menor que 0', other: '{n} pesos son menores que 0'}
  },
  storedWhole: {
    en: 'Every weight of this tab is stored, in 16 bits.',
    es: 'Se guardan todos los pesos de esta pestaña, en 16 bits.'
  },
  storedLargest: {
    en: 'Of each row the largest weights are stored, until they hold {mass} % of its sum or are {keys}, in 8 ' +
        'bits: {mean} of a row is left out in the mean, {most} at most.',
    es: 'De cada fila se guardan los pesos mayores, hasta reunir el {mass} % de su suma o llegar a {keys}, en 8 ' +
        'bits: falta de media un {mean} de la fila y, como mucho, un {most}.'
  },
  flaggedHeads: {
    en: {
      one: '{n} head is flagged: not every row is a row of weights that sum to 1.',
      other: '{n} heads are flagged: not every row is a row of weights that sum to 1.'
    },
    es: {
      one: '{n} cabeza está marcada: no todas sus filas son de pesos que suman 1.',
      other: '{n} cabezas están marcadas: no todas sus filas son de pesos que suman 1.'
    }
  },
  saveView: {en: 'Save this view:', es: 'Guardar esta vista:'},
  speak: {en: 'Language', es: 'Idioma'},
  shortcuts: {en: 'single-key shortcuts', es: 'atajos de una sola tecla'},
  shortcutsWhy:
      {en: 'speech input may press keys that nobody meant', es: 'al dictar pueden pulsarse teclas sin querer'},
  keyViews: {en: 'views', es: 'vistas'},
  keyHeads: {en: 'heads', es: 'cabezas'},
  keyLayers: {en: 'layers', es: 'capas'},
  keyArrows: {en: 'arrows', es: 'flechas'},
  keyMove: {en: 'move', es: 'moverse'},
  keyEnter: {en: 'Enter', es: 'Intro'},
  keyPin: {en: 'choose or pin', es: 'elegir o fijar'},
  keyEsc: {en: 'Esc', es: 'Esc'},
  keyRelease: {en: 'let go', es: 'soltar'},
  release: {en: 'let go (Esc)', es: 'soltar (Esc)'},

  // Before the page is shown, and when it cannot be
  unpacking: {en: 'Unpacking the weights …', es: 'Descomprimiendo los pesos …'},
  fileCut: {
    en: 'If this does not end, the file is not whole: copy it again, or write it again.',
    es: 'Si esto no termina, el archivo no está entero: cópielo otra vez o vuelva a crearlo.'
  },
  writeAgain: {en: 'Copy the file again, or write it again.', es: 'Copie el archivo otra vez o vuelva a crearlo.'},
  pageFailed: {en: 'This page failed: {error}. {again}', es: 'Esta página ha fallado: {error}. {again}'},
  dataUnreadable: {
    en: 'This page is damaged: its data cannot be read. {again}',
    es: 'Esta página está dañada: no se pueden leer sus datos. {again}'
  },
  blockMissing: {
    en: 'This page is damaged: block {block} is missing. {again}',
    es: 'Esta página está dañada: falta el bloque {block}. {again}'
  },
  blockDamaged: {
    en: 'This page is damaged: block {block} cannot be unpacked. {again}',
    es: 'Esta página está dañada: no se puede descomprimir el bloque {block}. {again}'
  },
  cannotUnpack: {
    en: 'This browser cannot unpack the weights: it has no DecompressionStream. Chromium 80, Firefox 113 and ' +
        'Safari 16.4 have it, and later ones.',
    es: 'Este navegador no puede descomprimir los pesos: le falta DecompressionStream. Lo tienen Chromium 80, ' +
        'Firefox 113, Safari 16.4 y los posteriores.'
  },

  // The model in the page
  liveLabel: {en: 'Type another sentence', es: 'Escriba otra frase'},
  live_translates: {en: 'Translate', es: 'Traducir'},
  live_reads: {en: 'Read', es: 'Leer'},
  live_continues: {en: 'Go on', es: 'Continuar'},
  liveWaking: {en: 'The model wakes up …', es: 'El modelo se está despertando …'},
  liveReady: {
    en: 'The model itself is in this page: what you type stays on this device.',
    es: 'El modelo está en esta página: lo que escriba no sale de este dispositivo.'
  },
  liveServed: {
    en: 'What you type is read by the program that this page came from, and by nobody else.',
    es: 'Lo que escriba lo lee el programa del que viene esta página, y nadie más.'
  },
  liveWriting: {en: 'writing: {text}', es: 'escribiendo: {text}'},
  liveDone: {
    en: {one: '{n} token in {ms} ms', other: '{n} tokens in {ms} ms'},
    es: {one: '{n} token en {ms} ms', other: '{n} tokens en {ms} ms'}
  },
  liveFailed: {en: 'That did not work: {error}', es: 'No ha funcionado: {error}'},
  liveGone: {
    en: 'The program that this page came from does not answer. Start heed serve again, and open the address that it ' +
        'prints.',
    es: 'El programa del que viene esta página no responde. Inicie heed serve otra vez y abra la dirección que ' +
        'muestra.'
  },
  liveTooLong: {
    en: 'That is too long: the model takes a few hundred words, and up to {most} characters are looked at.',
    es: 'Es demasiado largo: el modelo acepta unos cientos de palabras, y se miran hasta {most} caracteres.'
  },
  liveLacks: {
    en: 'This browser has no WebAssembly with SIMD and no worker for it: the page shows the sentence that it was ' +
        'made of, and the model in it sleeps. Chromium 95, Firefox 113 and Safari 16.4 have it, and later ones.',
    es: 'A este navegador le falta WebAssembly con SIMD o un worker: la página muestra la frase con la que se hizo, ' +
        'y su modelo duerme. Los tienen Chromium 95, Firefox 113, Safari 16.4 y los posteriores.'
  },
  changeHead: {en: 'What if this head were', es: 'Qué pasaría si esta cabeza fuera'},
  changeHeads: {en: 'What if these heads were', es: 'Qué pasaría si estas cabezas fueran'},
  changeHeadsWhy: {
    en: 'Every later layer and the output are computed anew, and shown beside those of the model as it is.',
    es: 'Todas las capas posteriores y la salida se calculan de nuevo y se muestran junto a las del modelo tal cual.'
  },
  change_learned: {en: 'as learned', es: 'como aprendió'},
  change_0: {en: 'off', es: 'apagada'},
  'change_0.5': {en: 'half as strong', es: 'la mitad de fuerte'},
  change_2: {en: 'twice as strong', es: 'el doble de fuerte'},
  change_uniform: {en: 'looking everywhere alike', es: 'mirando a todo por igual'},
  change_previous: {en: 'looking at the token before', es: 'mirando al token anterior'},
  change_own: {en: 'looking at its own place', es: 'mirando a su propio lugar'},
  changedHeads: {en: 'Changed: {heads}.', es: 'Cambiado: {heads}.'},
  asLearned: {en: 'All as learned', es: 'Todo como aprendió'},
  liveAbout: {en: 'About this model', es: 'Sobre este modelo'},

  // Of many tokens a few
  fewLargest: {
    en: 'Of {count} tokens the {few} with the largest values are shown, in their order.',
    es: 'De {count} tokens se muestran los {few} con los valores mayores, en su orden.'
  },
  fewAround: {
    en: 'Of {count} those from {first} to {end} are shown; another step shows others.',
    es: 'De {count} se muestran los de {first} a {end}; otro paso muestra otros.'
  },

  // Heads and tokens
  emptyToken: {en: '(empty)', es: '(vacío)'},
  theHead: {en: 'the head', es: 'la cabeza'},
  headNumber: {en: 'head {head}', es: 'cabeza {head}'},
  headName: {en: 'layer {layer}, {head}', es: 'capa {layer}, {head}'},
  meanOfLayer: {en: 'layer {layer}, mean of all heads', es: 'capa {layer}, media de todas las cabezas'},
  meanOfHeads: {
    en: {one: 'mean of {n} head', other: 'mean of {n} heads'},
    es: {one: 'media de {n} cabeza', other: 'media de {n} cabezas'}
  },
  headCount: {en: {one: '{n} head', other: '{n} heads'}, es: {one: '{n} cabeza', other: '{n} cabezas'}},
  role_previous: {en: 'previous token', es: 'token anterior'},
  role_next: {en: 'next token', es: 'token siguiente'},
  role_diagonal: {en: 'same position', es: 'misma posición'},
  role_sink: {en: 'one key for all', es: 'una clave para todas'},
  role_even: {en: 'spread evenly', es: 'reparto parejo'},
  tag_previous: {en: 'prev', es: 'ant.'},
  tag_next: {en: 'next', es: 'sig.'},
  tag_diagonal: {en: 'same', es: 'misma'},
  tag_sink: {en: 'sink', es: 'sumid.'},
  tag_even: {en: 'even', es: 'parejo'},
  figure_diagonal: {en: 'same position', es: 'misma posición'},
  figure_previous: {en: 'previous token', es: 'token anterior'},
  figure_next: {en: 'next token', es: 'token siguiente'},
  figure_first: {en: 'first token', es: 'primer token'},
  figure_sink: {en: 'strongest key', es: 'clave más fuerte'},
  figure_entropy: {en: 'entropy', es: 'entropía'},
  figure_distance: {en: 'mean distance', es: 'distancia media'},
  figure_importance: {en: 'importance', es: 'importancia'},
  about_diagonal:
      {en: 'weight of key i for query i, in the mean', es: 'peso de la clave i para la consulta i, de media'},
  about_previous: {en: 'weight of the key before', es: 'peso de la clave anterior'},
  about_next: {en: 'weight of the key after', es: 'peso de la clave siguiente'},
  about_first: {en: 'weight of the first key', es: 'peso de la primera clave'},
  about_sink: {
    en: 'weight of the key that all queries together attend to most: the sink',
    es: 'peso de la clave a la que más atienden todas las consultas juntas: el sumidero'
  },
  about_entropy: {
    en: 'how spread out the weights of a row are: 0 is one key, ln of the number of keys is all alike',
    es: 'cuánto se reparten los pesos de una fila: 0 es una sola clave; ln del número de claves, todas por igual'
  },
  about_distance: {en: 'how far away the attended keys stand', es: 'a qué distancia están las claves atendidas'},
  about_importance: {
    en: 'how much the loss of the given lines depends on the head (Michel et al. 2019)',
    es: 'cuánto depende de la cabeza la pérdida en las líneas dadas (Michel et al. 2019)'
  },
  nats: {en: '{value} nats', es: '{value} nats'},
  // Numbers have commas of their own in Spanish.
  listSeparator: {en: ', ', es: '; '},
  onKey: {en: 'on {key}', es: 'en {key}'},

  // Words of the trade
  word_head: {
    en: 'A head is one of several small attentions that work side by side in a layer. Each learns to look for ' +
        'something of its own: the word before, a translation, a subject.',
    es: 'Una cabeza es una de las varias atenciones pequeñas que trabajan a la vez en una capa. Cada una aprende ' +
        'a buscar algo propio: la palabra anterior, una traducción, un sujeto.'
  },
  word_layer: {
    en: 'A model is a stack of layers. Each one takes the vectors of all tokens, lets the tokens look at each ' +
        'other, and hands better vectors to the layer above.',
    es: 'Un modelo es una pila de capas. Cada una toma los vectores de todos los tokens, deja que se miren unos ' +
        'a otros y entrega vectores mejores a la capa de encima.'
  },
  word_query: {
    en: 'The query of a token is a vector that says what it is looking for. It is compared with the key of every ' +
        'token it may look at.',
    es: 'La consulta de un token es un vector que dice lo que busca. Se compara con la clave de cada token que ' +
        'puede mirar.'
  },
  word_key: {
    en: 'The key of a token is a vector that says what it has to offer. The better a key matches a query, the ' +
        'more weight its token gets.',
    es: 'La clave de un token es un vector que dice lo que ofrece. Cuanto mejor encaja con una consulta, más ' +
        'peso recibe su token.'
  },
  word_softmax: {
    en: 'Softmax turns scores into weights: it raises e to each score and divides by the sum, so that all ' +
        'weights are positive and sum to 1.',
    es: 'Softmax convierte puntuaciones en pesos: eleva e a cada puntuación y divide por la suma, de modo que ' +
        'todos los pesos son positivos y suman 1.'
  },
  word_sink: {
    en: 'A sink is a token that nearly every query looks at, often the first one or a full stop. It takes the ' +
        'weight that is not needed elsewhere and says little about meaning.',
    es: 'Un sumidero es un token al que miran casi todas las consultas, a menudo el primero o un punto. Recoge ' +
        'el peso que no hace falta en otra parte y dice poco del significado.'
  },
  word_entropy: {
    en: 'Entropy measures how spread out the weights of a row are: 0 when all weight is on one key, and the more ' +
        'the more evenly it is shared out.',
    es: 'La entropía mide cuánto se reparten los pesos de una fila: 0 si todo el peso está en una clave, y mayor ' +
        'cuanto más por igual se reparte.'
  },

  // Story
  storyColumnsTranslation: {en: 'the translation', es: 'la traducción'},
  storyColumnsSentence: {en: 'the sentence', es: 'la frase'},
  storyColumnsLooks: {en: 'who looks ([query:query])', es: 'quién mira ([query:consulta])'},
  storyColumnsLookedAt: {en: 'what is looked at ([key:key])', es: 'qué mira ([key:clave])'},
  storyLooks: {en: '{query} looks at {key}, {share}', es: '{query} mira a {key}, {share}'},
  storyLookedAt: {en: '{key} is looked at most by {query}, {share}', es: 'Quien más mira a {key} es {query}, {share}'},
  storyNothing: {en: '{query} looks at nothing in particular', es: '{query} no mira a nada en particular'},
  storyThen: {en: 'then {list}', es: 'después, {list}'},
  storyTranslation: {
    en: 'A line joins a word of the translation with a word of the sentence that the model looked at while it ' +
        'wrote it. The thicker the line, the more it looked.',
    es: 'Cada línea une una palabra de la traducción con una de la frase que el modelo miraba al escribirla. ' +
        'Cuanto más gruesa la línea, más la miraba.'
  },
  storyText: {
    en: 'To understand a word, the model looks at the others. A line joins a word with one that it looks at; the ' +
        'thicker the line, the more.',
    es: 'Para entender una palabra, el modelo mira las demás. Cada línea une una palabra con otra a la que mira; ' +
        'cuanto más gruesa, más.'
  },
  storyNext: {
    en: 'To find the word that comes next, the model looks back from the last one. The thicker a line, the more ' +
        'it looks there.',
    es: 'Para encontrar la palabra que sigue, el modelo mira atrás desde la última. Cuanto más gruesa la línea, ' +
        'más mira allí.'
  },
  storyPicture: {
    en: 'The colour over the picture shows where the token looks: the stronger, the more.',
    es: 'El color sobre la imagen muestra dónde mira el token: cuanto más fuerte, más.'
  },
  storyWeights: {
    en: 'A line joins a [query:query] with a [key:key] that it looks at; the thicker the line, the larger the weight.',
    es: 'Cada línea une una [query:consulta] con una [key:clave] a la que mira; cuanto más gruesa, mayor el peso.'
  },
  storyHead: {
    en: 'This is {name}, the clearest of the {count} here. In every [layer:layer] several [head:heads] look for ' +
        'different things; the other views show them all.',
    es: 'Aquí se ve {name}, la más clara de {count}. En cada [layer:capa] varias [head:cabezas] buscan cosas ' +
        'distintas; las otras vistas las muestran todas.'
  },
  storyOneHead: {en: 'There is one [head:head] here.', es: 'Aquí hay una sola [head:cabeza].'},
  storyMean: {
    en: 'Shown is the mean of all {count} in all [layer:layers].',
    es: 'Se muestra la media de las {count} de todas las [layer:capas].'
  },
  storySink: {
    en: '{token} is left out: it is a [sink:sink] that takes {share} of all attention. What is left of each row ' +
        'is divided by its sum.',
    es: 'Se deja fuera {token}: es un [sink:sumidero] que se lleva el {share} de toda la atención. Lo que queda ' +
        'de cada fila se divide por su suma.'
  },
  storyCandidates: {en: 'What may come next', es: 'Lo que puede seguir'},
  storyCandidatesNone: {
    en: 'The probabilities of the next word are not part of this page.',
    es: 'Las probabilidades de la palabra siguiente no forman parte de esta página.'
  },
  storyTry: {
    en: 'Point at another word, or tap it, to see where it looks.',
    es: 'Señale o toque otra palabra para ver dónde mira.'
  },
  storyTour: {en: 'How does it do that? Four steps', es: '¿Cómo lo hace? Cuatro pasos'},
  storyOpen: {en: 'look into this head', es: 'ver esta cabeza de cerca'},
  storyLegend: {en: 'weight of a line', es: 'peso de una línea'},
  storyRegion: {en: 'What is seen here', es: 'Lo que se ve aquí'},
  pictureAlone: {en: 'The picture', es: 'La imagen'},

  // Tour
  tour: {en: 'Tour', es: 'Recorrido'},
  tourHeading: {en: 'Step {step} of {steps}: {name}', es: 'Paso {step} de {steps}: {name}'},
  tourName1: {en: 'the query', es: 'la consulta'},
  tourName2: {en: 'the match', es: 'la comparación'},
  tourName3: {en: 'softmax', es: 'softmax'},
  tourName4: {en: 'the mix', es: 'la mezcla'},
  tourQuery: {
    en: 'Every token asks a question. In {name} the question of {query} is this row of {size} numbers, its ' +
        '[query:query] q. It was made from what the layer below knew of the token.',
    es: 'Cada token hace una pregunta. En {name} la pregunta de {query} es esta fila de {size} números, su ' +
        '[query:consulta] q. Se formó con lo que la capa de abajo sabía del token.'
  },
  tourMatch: {
    en: 'Every token also has a [key:key] k, what it offers. The page multiplies q and k number by number and ' +
        'adds up: the better they match, the larger the sum. Divided by {divisor}, it is the score.',
    es: 'Cada token tiene también una [key:clave] k, lo que ofrece. La página multiplica q y k número a número y ' +
        'suma: cuanto mejor encajan, mayor es la suma. Dividida por {divisor}, es la puntuación.'
  },
  tourMatchScaled: {
    en: 'Every token also has a [key:key] k, what it offers. The page multiplies q and k number by number and ' +
        'adds up: the better they match, the larger the sum. Times {factor}, it is the score.',
    es: 'Cada token tiene también una [key:clave] k, lo que ofrece. La página multiplica q y k número a número y ' +
        'suma: cuanto mejor encajan, mayor es la suma. Multiplicada por {factor}, es la puntuación.'
  },
  tourSoftmax: {
    en: '[softmax:Softmax] makes weights of the scores: e to the score less the largest, {largest}, divided by ' +
        'the sum of all, {sum}. What is a little larger becomes much larger, and all weights sum to 1.',
    es: '[softmax:Softmax] convierte las puntuaciones en pesos: e elevado a la puntuación menos la mayor, ' +
        '{largest}, dividido por la suma de todas, {sum}. Lo que es algo mayor pasa a ser mucho mayor, y los ' +
        'pesos suman 1.'
  },
  tourMix: {
    en: 'Every token carries a value v, what it has to say. The values are mixed, each as much as its weight: ' +
        '{query} takes {share} of its answer from {key}.',
    es: 'Cada token lleva un valor v, lo que tiene que decir. Los valores se mezclan, cada uno según su peso: ' +
        '{query} toma de {key} un {share} de su respuesta.'
  },
  tourNoVectors: {
    en: 'The vectors q, k and v of this map are not part of this page: the tour shows its weights alone.',
    es: 'Los vectores q, k y v de este mapa no forman parte de esta página: el recorrido muestra solo sus pesos.'
  },
  tourQueryWeights: {
    en: 'Every token asks a question, its [query:query]: a row of numbers that says what it is looking for. Here ' +
        '{query} asks, in {name}.',
    es: 'Cada token hace una pregunta, su [query:consulta]: una fila de números que dice lo que busca. Aquí ' +
        'pregunta {query}, en {name}.'
  },
  tourMatchWeights: {
    en: 'Every token also has a [key:key], what it offers. The query is compared with each of them. {key} ' +
        'matched best; the others followed in this order.',
    es: 'Cada token tiene también una [key:clave], lo que ofrece. La consulta se compara con cada una. {key} fue ' +
        'la que mejor encajó; las demás siguieron en este orden.'
  },
  tourSoftmaxWeights: {
    en: '[softmax:Softmax] makes weights of what matched, all positive, which sum to 1. These are the weights of ' +
        '{query}.',
    es: '[softmax:Softmax] convierte en pesos lo que encajó, todos positivos, que suman 1. Estos son los pesos ' +
        'de {query}.'
  },
  tourMatched: {en: 'place', es: 'puesto'},
  tourToken: {en: 'token', es: 'token'},
  tourProduct: {en: 'q \u00b7 k', es: 'q \u00b7 k'},
  tourScore: {en: 'score', es: 'puntuación'},
  tourExp: {en: 'e to the score', es: 'e a la puntuación'},
  tourWeight: {en: 'weight', es: 'peso'},
  tourValue: {en: 'value v', es: 'valor v'},
  tourPart: {en: 'weight \u00d7 v', es: 'peso \u00d7 v'},
  tourOthers: {en: {one: '{n} other', other: '{n} others'}, es: {one: '{n} más', other: 'otros {n}'}},
  tourSum: {en: 'sum', es: 'suma'},
  tourAnswer: {en: 'the answer', es: 'la respuesta'},
  tourNext: {en: 'next', es: 'siguiente'},
  tourBack: {en: 'back', es: 'atrás'},
  tourEnd: {en: 'end the tour (Esc)', es: 'terminar (Esc)'},
  tourAll: {en: 'see every number', es: 'ver todos los números'},

  // Measures
  measure: {en: 'Measure', es: 'Medida'},
  measure_weights: {en: 'weights', es: 'pesos'},
  measure_norms: {en: 'norms', es: 'normas'},
  measure_rollout: {en: 'rollout', es: 'rollout'},
  measure_gradient: {en: 'gradient × weight', es: 'gradiente × peso'},
  measure_input: {en: 'gradient × input', es: 'gradiente × entrada'},
  given_inputTitle: {
    en: 'Gradient times input: what each token contributes to the log-probability of what was written at a row, in ' +
        'first order (Shrikumar et al. 2016).',
    es: 'Gradiente por entrada: lo que cada token aporta a la probabilidad logarítmica de lo escrito en una fila, ' +
        'en primer orden (Shrikumar et al. 2016).'
  },
  given_normsTitle: {
    en: 'Norms: the length of what each key adds to a query, weight times transformed value (Kobayashi et al. 2020).',
    es: 'Normas: la longitud de lo que cada clave añade a una consulta, peso por valor transformado (Kobayashi et ' +
        'al. 2020).'
  },
  given_rolloutTitle: {
    en: 'Rollout: how much of each token is in a position behind this layer, through all layers up to it (Abnar ' +
        'and Zuidema 2020).',
    es: 'Rollout: cuánto de cada token hay en una posición tras esta capa, a través de todas las capas hasta ella ' +
        '(Abnar y Zuidema 2020).'
  },
  given_gradientTitle: {
    en: 'Gradient times weight: what each weight contributes to the log-probability of what was written, in first ' +
        'order (Chefer et al. 2021).',
    es: 'Gradiente por peso: lo que cada peso aporta a la probabilidad logarítmica de lo escrito, en primer orden ' +
        '(Chefer et al. 2021).'
  },

  // Tools
  order: {en: 'Order', es: 'Orden'},
  byLayer: {en: 'by layer', es: 'por capa'},
  byFigure: {en: 'by {figure}', es: 'por {figure}'},
  inOrderOf: {en: 'By {figure}', es: 'Por {figure}'},
  asTable: {en: 'figures as a table', es: 'cifras en una tabla'},
  ownScale: {en: 'own scale for each head', es: 'una escala por cabeza'},
  allTokens: {en: 'maps of all tokens', es: 'mapas de todos los tokens'},
  allTokensWhy:
      {en: 'instead of what {token} looks at in the picture', es: 'en vez de lo que {token} mira en la imagen'},
  lift: {en: 'lift faint weights', es: 'realzar pesos débiles'},
  liftWhy: {en: 'colour by the square root of a weight', es: 'color según la raíz cuadrada del peso'},
  showAs: {en: 'Show as', es: 'Mostrar como'},
  display_picture: {en: 'Picture', es: 'Imagen'},
  display_lines: {en: 'Lines', es: 'Líneas'},
  display_map: {en: 'Map', es: 'Mapa'},
  display_text: {en: 'Text', es: 'Texto'},
  wholeWords: {en: 'whole words', es: 'palabras enteras'},
  wholeWordsWhy: {en: 'merge the pieces of a word', es: 'unir los trozos de cada palabra'},
  hideSink: {en: 'hide the sink', es: 'ocultar el sumidero'},
  hideSinkWhy: {
    en: 'leave out the key that receives most attention, and renormalise',
    es: 'dejar fuera la clave que más atención recibe y renormalizar'
  },
  weightsFrom: {en: 'weights from', es: 'pesos desde'},
  weightsFromValue: {en: 'weights from {value}', es: 'pesos desde {value}'},
  smallestWeight: {en: 'Smallest weight that is drawn', es: 'Menor peso que se dibuja'},
  findToken: {en: 'find a token', es: 'buscar un token'},
  findTokenLabel: {en: 'Find a token', es: 'Buscar un token'},
  found: {en: '{at} of {count}', es: '{at} de {count}'},
  foundNone: {en: 'none', es: 'ninguno'},
  several: {en: 'choose several', es: 'elegir varias'},
  severalWhy: {en: 'or hold Shift or Ctrl while choosing', es: 'o mantenga pulsada Mayús o Ctrl al elegir'},
  colorOfWeight: {en: 'colour of a weight', es: 'color de un peso'},
  colorOfDifference: {en: 'colour of a difference', es: 'color de una diferencia'},
  shadeOfWeight: {en: 'shade of a weight', es: 'tono de un peso'},
  largestOfHead: {en: 'largest of each head', es: 'mayor de cada cabeza'},
  vectorsQk: {en: 'q and k', es: 'q y k'},
  vectorsV: {en: 'v', es: 'v'},

  // Model
  headLookedAt: {en: 'The head looked at', es: 'La cabeza que se mira'},
  whatLooksAt: {en: 'what {token} looks at', es: 'lo que mira {token}'},
  axes: {en: 'down: queries, across: keys', es: 'hacia abajo: consultas; a lo ancho: claves'},
  openHead: {en: 'open this head', es: 'abrir esta cabeza'},
  flaggedTile: {en: ', flagged: {notes}', es: ', marcada: {notes}'},
  layerHeading: {en: 'Layer {layer}', es: 'Capa {layer}'},
  tableCaption: {
    en: 'What each head of {name} does, in the mean over its queries',
    es: 'Lo que hace cada cabeza de {name}, de media sobre sus consultas'
  },
  tableHead: {en: 'layer, head', es: 'capa, cabeza'},
  tableRole: {en: 'so it is', es: 'así que es'},
  everyHead: {en: '{name}: every layer and head', es: '{name}: todas las capas y cabezas'},

  // Head
  heads: {en: 'Heads', es: 'Cabezas'},
  picker: {
    en: '[head:Heads] (across) of each [layer:layer] (down)',
    es: '[head:Cabezas] (a lo ancho) de cada [layer:capa] (hacia abajo)'
  },
  allOfLayer: {en: 'all heads of layer {layer}', es: 'todas las cabezas de la capa {layer}'},
  allOfThisLayer: {en: 'all heads of this layer', es: 'todas las cabezas de esta capa'},
  andMore: {en: ' and {n} more', es: ' y {n} más'},
  tokenLookedAt: {en: 'The token looked at', es: 'El token que se mira'},
  sinkHidden: {
    en: 'The token {token} (key {key}, which receives {share} of all attention of this tab) is hidden. What is ' +
        'left of each row is divided by its sum, so that it sums to 1 again.',
    es: 'El token {token} (clave {key}, que recibe el {share} de toda la atención de esta pestaña) está oculto. ' +
        'Lo que queda de cada fila se divide por su suma, para que vuelva a sumar 1.'
  },
  piecesMerged: {
    en: 'Pieces are merged into words: the weights of a word’s keys are summed, the rows of its queries averaged.',
    es: 'Los trozos se unen en palabras: los pesos de las claves de una palabra se suman, y las filas de sus ' +
        'consultas se promedian.'
  },
  fileKeyHidden: {en: 'key {key} hidden, rows renormalised', es: 'clave {key} oculta, filas renormalizadas'},
  filePieces: {en: 'pieces merged into words', es: 'trozos unidos en palabras'},
  linesHeading: {
    en: '[query:Queries] (left) look at [key:keys] (right)',
    es: 'Las [query:consultas] (izquierda) miran a las [key:claves] (derecha)'
  },
  linesAsMap: {en: 'see all {count} tokens as a map', es: 'ver los {count} tokens como mapa'},
  queriesWhoLook: {en: 'Queries: who looks', es: 'Consultas: quién mira'},
  keysLookedAt: {en: 'Keys: what is looked at', es: 'Claves: qué se mira'},
  dashedBelow0: {en: 'dashed: below 0', es: 'a trazos: menos de 0'},
  rowLookedAtBy: {en: '{token}, looked at by', es: '{token}, a quien mira'},
  nothing: {en: 'nothing', es: 'nada'},
  textHeadingSelf: {
    en: 'Point at a token: the others are shaded by how much it attends to them',
    es: 'Señale un token: los demás se tiñen según cuánto los atiende'
  },
  textHeading: {
    en: 'Point at a query: keys are shaded by how much it attends to them',
    es: 'Señale una consulta: las claves se tiñen según cuánto las atiende'
  },
  theText: {en: 'Text', es: 'Texto'},
  queries: {en: 'Queries', es: 'Consultas'},
  keys: {en: 'Keys', es: 'Claves'},
  mapLabel: {
    en: 'Map of {name}: {queries} queries by {keys} keys. Arrow keys move over the cells.',
    es: 'Mapa de {name}: {queries} consultas por {keys} claves. Las flechas mueven por las celdas.'
  },
  attendsTo: {en: '{query} attends to {key}: {weight}', es: '{query} atiende a {key}: {weight}'},
  queryAndKey: {en: 'query {query}, key {key}, {heads}', es: 'consulta {query}, clave {key}, {heads}'},
  queryOf: {en: '[query:query] {query} of {count}', es: '[query:consulta] {query} de {count}'},
  keyOf: {en: '[key:key] {key} of {count}', es: '[key:clave] {key} de {count}'},
  attends: {en: 'attends to', es: 'atiende a'},
  attendedBy: {en: 'is attended to by', es: 'la atienden'},
  hintTapToken: {en: 'Tap a token to see its row or column.', es: 'Toque un token para ver su fila o su columna.'},
  hintPointToken: {
    en: 'Point at a token to see its row or column; click to keep it.',
    es: 'Señale un token para ver su fila o su columna; pulse para fijarlo.'
  },
  countedFromShown: {en: 'Counted from the weights that are shown.', es: 'Calculado con los pesos que se muestran.'},
  howComputed: {en: 'how this row was computed', es: 'cómo se calculó esta fila'},
  rowNotFinite: {
    en: {one: 'This row has {n} weight that is not finite.', other: 'This row has {n} weights that are not finite.'},
    es: {one: 'Esta fila tiene {n} peso que no es finito.', other: 'Esta fila tiene {n} pesos que no son finitos.'}
  },
  rowBelow0: {
    en: {one: 'This row has {n} weight below 0.', other: 'This row has {n} weights below 0.'},
    es: {one: 'Esta fila tiene {n} peso menor que 0.', other: 'Esta fila tiene {n} pesos menores que 0.'}
  },
  rowZero: {en: 'This row is all zero.', es: 'Esta fila es toda ceros.'},
  rowSum: {en: 'This row sums to {sum}, not to 1.', es: 'Esta fila suma {sum}, no 1.'},
  rowDropped: {
    en: 'and {share} spread over keys that are not stored',
    es: 'y {share} repartido entre claves que no se guardan'
  },

  zoom: {en: 'Zoom', es: 'Ampliación'},
  zoomIn: {en: 'closer', es: 'acercar'},
  zoomOut: {en: 'farther', es: 'alejar'},
  zoomWhole: {en: 'whole map', es: 'mapa entero'},
  zoomHint: {
    en: 'Drag to move; Ctrl and the wheel, or + and \u2212, zoom.',
    es: 'Arrastre para moverse; Ctrl y la rueda, o + y \u2212, para ampliar.'
  },
  miniMap: {en: 'The whole map, and the part that is shown', es: 'El mapa entero y la parte que se ve'},

  // Over a picture
  pictureLabel: {
    en: 'The picture, in {rows} rows of {columns} patches. Arrow keys move over them.',
    es: 'La imagen, en {rows} filas de {columns} parches. Las flechas mueven por ellos.'
  },
  pictureSaid: {
    en: 'patch {patch} attends most to {key}: {weight}',
    es: 'el parche {patch} atiende sobre todo a {key}: {weight}'
  },
  whoLooks: {en: 'Who looks: point at a patch', es: 'Quién mira: señale un parche'},
  or: {en: ' or ', es: ' o '},
  tokenLooksAt: {en: '{token} looks at: {heads}', es: '{token} mira a: {heads}'},
  looksInPicture:
      {en: 'What {token} looks at in the picture, {heads}', es: 'Lo que mira {token} en la imagen, {heads}'},
  onToken: {en: ' \u00b7 on {token}: {weight}', es: ' \u00b7 en {token}: {weight}'},
  fileLooksAt: {en: '{token} looks at', es: '{token} mira a'},

  // Inside
  noVectors: {
    en: 'The vectors of this tab are not part of this page.',
    es: 'Los vectores de esta pestaña no forman parte de esta página.'
  },
  formulaOutput: {en: 'output', es: 'salida'},
  formulaMask: {en: ' + mask', es: ' + máscara'},
  theProducts: {en: 'the products, one by one', es: 'los productos, uno a uno'},
  otherProducts: {en: '{sum} of the other {n}', es: '{sum} de los otros {n}'},
  queryLine: {
    en: 'The [query:query] of {token} in {head}, {size} numbers: ',
    es: 'La [query:consulta] de {token} en {head}, {size} números: '
  },
  largestKeys:
      {en: 'The {n} keys with the largest weights, of {count}', es: 'Las {n} claves con los pesos mayores, de {count}'},
  oneKeyALine: {
    en: 'Each line is one key; choose it to see its products',
    es: 'Cada línea es una clave; elíjala para ver sus productos'
  },
  columnKey: {en: 'key', es: 'clave'},
  columnK: {en: 'its vector k', es: 'su vector k'},
  columnKWhy: {en: 'what the token offers', es: 'lo que ofrece el token'},
  columnProduct: {en: 'q \u00b7 k', es: 'q \u00b7 k'},
  columnProductWhy: {en: 'how well they match', es: 'cuánto encajan'},
  columnScale: {en: '\u00d7 scale', es: '\u00d7 escala'},
  columnScaleValue: {en: 'scale {value}', es: 'escala {value}'},
  columnMask: {en: 'mask', es: 'máscara'},
  columnMaskWhy: {en: 'later tokens: \u2212\u221e', es: 'tokens posteriores: \u2212\u221e'},
  columnExp: {en: 'exp', es: 'exp'},
  columnExpWhy: {en: 'less the largest, {value}', es: 'menos la mayor, {value}'},
  columnWeight: {en: 'weight', es: 'peso'},
  columnWeightWhy: {en: 'divided by the sum, {value}', es: 'dividido por la suma, {value}'},
  columnV: {en: 'its value v', es: 'su valor v'},
  columnVWhy: {en: 'what the token says', es: 'lo que dice el token'},
  columnPart: {en: 'weight \u00d7 v', es: 'peso \u00d7 v'},
  columnPartWhy: {en: 'its part of the output', es: 'su parte de la salida'},
  rowSumName: {en: 'sum', es: 'suma'},
  agreement: {
    en: 'Computed here from the stored vectors, in double precision. The weights that heed’s kernel gave differ ' +
        'by {worst} at most.',
    es: 'Calculado aquí con los vectores guardados, en doble precisión. Los pesos que dio heed difieren como ' +
        'mucho en {worst}.'
  },
  toolHead: {en: 'Head', es: 'Cabeza'},
  toolQuery: {en: 'Query', es: 'Consulta'},
  moveQuery: {en: 'Move to another query', es: 'Ir a otra consulta'},
  queryBefore: {en: 'previous query', es: 'consulta anterior'},
  queryAfter: {en: 'next query', es: 'consulta siguiente'},
  fileQuery: {en: '{name}, {head}, query {n}: {token}', es: '{name}, {head}, consulta {n}: {token}'},
  fileProduct: {en: 'q\u00b7k', es: 'q\u00b7k'},
  fileLargestKeys:
      {en: 'the {n} keys with the largest weights, of {count}', es: 'las {n} claves con los pesos mayores, de {count}'},

  // Steps
  stepsInput:
      {en: 'The input, coloured by what this step looks at', es: 'La entrada, coloreada según lo que mira este paso'},
  stepsOutput: {en: 'The output so far; choose a token', es: 'La salida hasta aquí; elija un token'},
  stepOf: {en: 'Step {step} of {steps}: {token}', es: 'Paso {step} de {steps}: {token}'},
  noProbabilities: {en: 'no probabilities are part of this page', es: 'esta página no incluye probabilidades'},
  likeliest: {en: 'the likeliest tokens of this step', es: 'los tokens más probables de este paso'},
  lensHeading: {en: 'What each layer would have written', es: 'Lo que habría escrito cada capa'},
  lensWhat: {
    en: 'The logit lens: the last norm and the output, applied to what leaves each layer (nostalgebraist 2020).',
    es: 'La lente de logits: la última normalización y la salida, aplicadas a lo que deja cada capa ' +
        '(nostalgebraist 2020).'
  },
  stepsBefore: {
    en: 'What came before, coloured by what this step looks at',
    es: 'Lo anterior, coloreado según lo que mira este paso'
  },
  alignment: {
    en: 'Each produced word, and the words that got most of its attention',
    es: 'Cada palabra producida y las palabras que más atención le merecieron'
  },
  alignWord: {en: 'word', es: 'palabra'},
  alignMost: {en: 'looks most at', es: 'mira sobre todo a'},
  alignShare: {en: 'share', es: 'parte'},
  alignThen: {en: 'then at', es: 'luego a'},
  alignMap: {
    en: 'The same as a map: produced words down, words looked at across',
    es: 'Lo mismo como mapa: palabras producidas hacia abajo, palabras miradas a lo ancho'
  },
  step: {en: 'Step', es: 'Paso'},
  toolHeads: {en: 'Heads', es: 'Cabezas'},
  meanOfAll: {en: 'mean of all', es: 'media de todas'},
  meanOfOne: {en: 'mean of layer {layer}', es: 'media de la capa {layer}'},
  play: {en: 'play', es: 'reproducir'},
  stop: {en: 'stop', es: 'parar'},
  fileAlignment: {
    en: 'Alignment: the share of each produced word’s attention',
    es: 'Alineación: parte de la atención de cada palabra producida'
  },

  // Compare
  textA: {en: 'A: {title}', es: 'A: {title}'},
  textB: {en: 'B: {title}', es: 'B: {title}'},
  otherText: {en: 'the other one', es: 'el otro'},
  predictionsHeading: {
    en: 'How probable each token of A is, in A and in B: blue where it gains, orange where it loses',
    es: 'Qué probabilidad tiene cada token de A, en A y en B: azul si gana, naranja si pierde'
  },
  colorOfProbability: {en: 'colour of a gain or loss', es: 'color de una ganancia o pérdida'},
  noDifference: {
    en: 'No weight differs here. The heads that differ most are listed beside the maps.',
    es: 'Aquí no difiere ningún peso. Las cabezas que más difieren están en la lista junto a los mapas.'
  },
  noDifferenceInTab: {
    en: 'No head of this tab looks elsewhere. In others some do: {tabs}.',
    es: 'Ninguna cabeza de esta pestaña mira a otra parte. En otras sí: {tabs}.'
  },
  noDifferenceAtAll:
      {en: 'No head looks elsewhere, in any tab.', es: 'Ninguna cabeza mira a otra parte, en ninguna pestaña.'},
  differenceHeading: {
    en: 'B \u2212 A: blue where B has more, orange where A has',
    es: 'B \u2212 A: azul donde B tiene más, naranja donde A'
  },
  pairedByPosition: {
    en: 'Tokens are paired by their position: A and B both have {queries} queries and {keys} keys. The difference ' +
        'is B \u2212 A for each pair.',
    es: 'Los tokens se emparejan por su posición: tanto A como B tienen {queries} consultas y {keys} claves. La ' +
        'diferencia es B \u2212 A para cada pareja.'
  },
  pairedByTokens: {
    en: 'Equal tokens that come in the same order in A and in B are paired (a longest common subsequence): ' +
        '{pairs} of {a} and {b} queries, {keyPairs} of {keysA} and {keysB} keys. The difference is B \u2212 A ' +
        'for these pairs and says nothing of the other tokens.',
    es: 'Se emparejan los tokens iguales que van en el mismo orden en A y en B (una subsecuencia común ' +
        'máxima): {pairs} de {a} y {b} consultas, {keyPairs} de {keysA} y {keysB} claves. La diferencia es B ' +
        '\u2212 A para estas parejas y no dice nada de los demás tokens.'
  },
  noPairs: {en: 'No token of A belongs to one of B.', es: 'Ningún token de A corresponde a uno de B.'},
  cellLookedAt: {en: 'The cell looked at', es: 'La celda que se mira'},
  mapOfSide: {
    en: 'Map of {which}, {name}: {queries} queries by {keys} keys. Arrow keys move over the cells.',
    es: 'Mapa de {which}, {name}: {queries} consultas por {keys} claves. Las flechas mueven por las celdas.'
  },
  mapOfDifference: {
    en: 'Map of the difference, {name}: {queries} queries by {keys} keys. Arrow keys move over the cells.',
    es: 'Mapa de la diferencia, {name}: {queries} consultas por {keys} claves. Las flechas mueven por las celdas.'
  },
  cellSaid:
      {en: '{which}: {query} attends to {key} with {weight}', es: '{which}: {query} atiende a {key} con {weight}'},
  differenceSaid: {en: 'difference {value}', es: 'diferencia {value}'},
  noPair: {en: 'no pair', es: 'sin pareja'},
  noPartner: {en: 'This token has no partner on the other side.', es: 'Este token no tiene pareja en el otro lado.'},
  hintTapCell: {en: 'Tap a cell to see it in A and in B.', es: 'Toque una celda para verla en A y en B.'},
  hintPointCell: {
    en: 'Point at a cell to see it in A and in B; click to keep it.',
    es: 'Señale una celda para verla en A y en B; pulse para fijarla.'
  },
  differMost: {en: 'Heads that differ most', es: 'Cabezas que más difieren'},
  differWhat: {
    en: 'How much of a row’s weight stands on other tokens in B than in A, in the mean over paired queries. A ' +
        'key without a partner counts as another token.',
    es: 'Cuánto del peso de una fila recae en B en otros tokens que en A, de media sobre las consultas ' +
        'emparejadas. Una clave sin pareja cuenta como otro token.'
  },
  pairTokens: {en: 'pair tokens', es: 'emparejar tokens'},
  byPosition: {en: 'by position', es: 'por posición'},
  thatAreEqual: {en: 'that are equal', es: 'que son iguales'},
  fileBeside: {en: '{name}, {heads}, beside: {other}', es: '{name}, {heads}, junto a: {other}'},
  filePairedByPosition: {en: 'tokens paired by position', es: 'tokens emparejados por posición'},
  filePairedByTokens: {en: 'equal tokens paired', es: 'tokens iguales emparejados'},
};

let language = 'en';

const formats = new Map();
function format(options) {
  const id = language + JSON.stringify(options);
  if (!formats.has(id)) formats.set(id, new Intl.NumberFormat(language, options));
  return formats.get(id);
}

/** A number with so many digits behind the point or comma. */
const fixed = (x, digits) =>
    format({minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: false}).format(x);
const counted = n => format({}).format(n);

/** The text `key` in the language of the page, before its values are put in. */
function wording(key, values) {
  const text = TEXTS[key][language];
  if (typeof text === 'string') return text;
  return text[new Intl.PluralRules(language).select(values.n)] ?? text.other;  // Spanish millions count as others
}

const PLACES = /\{(\w+)\}|\[(\w+):([^\]]+)\]/g;
const shownValue = value => (typeof value === 'number' ? counted(value) : value);

/** The text `key` as a string; numbers among the values are counts. */
function tr(key, values = {}) {
  return wording(key, values).replace(PLACES, (_, name, word, label) => label ?? shownValue(values[name]));
}

/** The same as parts of an element: values may be elements, and words of the glossary explain themselves. */
function trParts(key, values = {}) {
  const text = wording(key, values), parts = [];
  let end = 0;
  for (const {0: place, 1: name, 2: word, 3: label, index} of text.matchAll(PLACES)) {
    parts.push(text.slice(end, index), word ? term(word, label) : shownValue(values[name]));
    end = index + place.length;
  }
  return [...parts, text.slice(end)].filter(part => part !== '');
}

/** What heed itself writes into the data, and where its values stand: [[key, form], ...]. */
let foundForms = null;
const givenForms = () => foundForms ??= Object.entries(TEXTS).flatMap(([key, {en}]) => {
  const forms = !key.startsWith('given_') ? [] : typeof en === 'string' ? [en] : Object.values(en);
  const escaped = form => form.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{(\w+)\}/g, '(?<$1>.+?)');
  return forms.map(form => [key, new RegExp(`^${escaped(form)}$`, 's')]);
});
const isHeeds = text => givenForms().some(([, form]) => form.test(text));

/** A number as heed writes it, 1,200 or 0.25, with the points and commas of the language; another text as it is. */
function givenNumber(text) {
  const digits = /^-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?$/.exec(text)?.[1]?.length ?? 0;
  const value = Number(text.replaceAll(',', ''));
  if (!/^-?[\d,]+(\.\d+)?$/.test(text) || Number.isNaN(value)) return text;
  return format({minimumFractionDigits: digits, maximumFractionDigits: digits}).format(value);
}

/** A text of the page's data, in the language of the page where it is one of heed's own. */
function given(text) {
  if (language === 'en') return text;
  for (const [key, form] of givenForms()) {
    const found = form.exec(text);
    if (!found) continue;
    const values = Object.entries(found.groups ?? {});
    return tr(
        key,
        Object.fromEntries(values.map(([name, value]) => [name, name === 'n' ? Number(value) : givenNumber(value)])));
  }
  return text;
}
