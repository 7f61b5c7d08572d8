// The data: the head at once, the index as typed arrays, texts chunk by chunk on demand.

const head = JSON.parse(document.getElementById("head").textContent);
const TYPES = { B: Uint8Array, H: Uint16Array, i: Int32Array, f: Float32Array };
const MOST_CHUNKS = 96;
const index = { count: head.index.count };
const indexReady = readIndex();
const chunkTexts = new Map();

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let place = 0; place < binary.length; place += 1) bytes[place] = binary.charCodeAt(place);
  return bytes;
}

async function unpacked(base64) {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser cannot unpack the samples; it lacks DecompressionStream");
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

async function readIndex() {
  const buffer = await unpacked(head.index.data);
  let offset = 0;
  for (const [name, type] of head.index.layout) {
    const Column = TYPES[type];
    index[name] = new Column(buffer, offset, index.count);
    offset += index.count * Column.BYTES_PER_ELEMENT;
  }
  delete head.index.data;
}

// The element of a chunk, once the parser has read all of it.
async function chunkElement(number) {
  for (;;) {
    const element = document.getElementById(`chunk-${number}`);
    if (element && (element.nextElementSibling || document.readyState !== "loading")) return element;
    if (document.readyState !== "loading") throw new Error(`the page is cut off: it lacks chunk ${number}`);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}

function chunk(number) {
  let texts = chunkTexts.get(number);
  if (texts) {
    chunkTexts.delete(number); // the one used last is forgotten last
  } else {
    texts = readChunk(number);
  }
  chunkTexts.set(number, texts);
  if (chunkTexts.size > MOST_CHUNKS) chunkTexts.delete(chunkTexts.keys().next().value);
  return texts;
}

async function readChunk(number) {
  const element = await chunkElement(number);
  return JSON.parse(new TextDecoder().decode(await unpacked(element.textContent)));
}

async function textsOf(id) {
  return (await chunk(Math.floor(id / head.index.chunk)))[id % head.index.chunk];
}

function optional(column, id) {
  const value = index[column][id];
  return Number.isNaN(value) || (value === -1 && column !== "reward" && column !== "advantage") ? null : value;
}

const statusOf = (id) => head.statuses[index.status[id]];
const sourceOf = (id) => head.index.sources[index.source[id]];
const kindOf = (id) => head.index.kinds[index.kind[id]];
const inputOf = (id) => head.inputs[index.input[id]];
const hasColumn = (column) => index[column].some((value) => !Number.isNaN(value) && value !== -1);
