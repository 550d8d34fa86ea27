/* Resize an image to the backbone's input, exactly as data/pixels.py does.

   The scaling of a canvas differs between browsers. This is Pillow's antialiased scaling in the same fixed-point
   arithmetic: the same pixels give the same result, bit for bit. */
"use strict";

const BITS = 22; // of the fixed-point weights

const FILTERS = {
  box: [0.5, (x) => (x > -0.5 && x <= 0.5 ? 1 : 0)],
  bilinear: [1, (x) => Math.max(0, 1 - Math.abs(x))],
  hamming: [1, (x) => (x === 0 ? 1 : Math.abs(x) >= 1 ? 0 : sinc(x) * (0.54 + 0.46 * Math.cos(Math.PI * x)))],
  bicubic: [2, (x) => cubic(Math.abs(x), -0.5)],
  lanczos: [3, (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0)],
};

function sinc(x) {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
}

function cubic(x, a) {
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

/* For each output index: the first input index, and the weights from there on. */
function weights(before, after, name) {
  const [reach, filter] = FILTERS[name];
  const scale = before / after;
  const stretch = Math.max(scale, 1); // antialiasing: the filter is as wide as the input pixels of one output pixel
  const support = reach * stretch;
  const rows = [];
  for (let i = 0; i < after; i++) {
    const centre = (i + 0.5) * scale;
    const begin = Math.max(0, Math.trunc(centre - support + 0.5));
    const end = Math.min(before, Math.trunc(centre + support + 0.5));
    const row = [];
    let total = 0;
    for (let j = begin; j < end; j++) {
      const weight = filter((j - centre + 0.5) * (1 / stretch));
      row.push(weight);
      total += weight;
    }
    rows.push({ begin, row: row.map((w) => roundAway((w / total) * 2 ** BITS)) });
  }
  return rows;
}

function roundAway(x) {
  return Math.trunc(x < 0 ? x - 0.5 : x + 0.5);
}

/* Resample in one direction: ``step`` is the distance of neighbours along it, a lane is a row or a column. */
function pass(from, to, rows, lanes, step, laneFrom, laneTo, stepTo) {
  for (let lane = 0; lane < lanes; lane++) {
    for (let i = 0; i < rows.length; i++) {
      const { begin, row } = rows[i];
      let index = lane * laneFrom + begin * step;
      let red = 1 << (BITS - 1), green = red, blue = red;
      for (let j = 0; j < row.length; j++, index += step) {
        red += from[index] * row[j];
        green += from[index + 1] * row[j];
        blue += from[index + 2] * row[j];
      }
      const target = lane * laneTo + i * stepTo;
      to[target] = red >> BITS; // ``to`` is a clamped array: values are limited to 0 … 255
      to[target + 1] = green >> BITS;
      to[target + 2] = blue >> BITS;
    }
  }
}

/* Resize RGBA pixels to width × height; the fourth channel is ignored. */
function resample(image, width, height, name) {
  if (name === "nearest") return nearest(image, width, height);
  let current = image;
  if (current.width !== width) {
    const data = new Uint8ClampedArray(width * current.height * 4);
    pass(current.data, data, weights(current.width, width, name), current.height, 4, current.width * 4, width * 4, 4);
    current = { data, width, height: current.height };
  }
  if (current.height !== height) {
    const data = new Uint8ClampedArray(width * height * 4);
    pass(current.data, data, weights(current.height, height, name), width, width * 4, 4, 4, width * 4);
    current = { data, width, height };
  }
  return current;
}

/* Steps are accumulated, not multiplied, as in Pillow: rounding decides at pixel borders. */
function nearestIndices(before, after) {
  const step = before / after;
  const indices = [];
  for (let i = 0, position = step * 0.5; i < after; i++, position += step) indices.push(Math.trunc(position));
  return indices;
}

function nearest(image, width, height) {
  const data = new Uint8ClampedArray(width * height * 4);
  const columns = nearestIndices(image.width, width);
  nearestIndices(image.height, height).forEach((line, y) => {
    columns.forEach((column, x) => {
      for (let c = 0; c < 3; c++) data[(y * width + x) * 4 + c] = image.data[(line * image.width + column) * 4 + c];
    });
  });
  return { data, width, height };
}

/* Round half to even, as Python does. */
function roundEven(x) {
  const low = Math.floor(x);
  return x - low === 0.5 ? low + (low % 2) : Math.round(x);
}

/* Return three planes of bytes (3 · size · size): the complete image scaled to a square, or its centre. */
function toSquare(image, spec) {
  const size = spec.size;
  let current, left = 0, top = 0;
  if (spec.fit === "crop") {
    const short = roundEven(size / spec.crop);
    const scale = short / Math.min(image.width, image.height);
    const width = Math.max(short, roundEven(image.width * scale));
    const height = Math.max(short, roundEven(image.height * scale));
    current = resample(image, width, height, spec.interpolation);
    left = Math.floor((width - size) / 2);
    top = Math.floor((height - size) / 2);
  } else {
    current = resample(image, size, size, spec.interpolation);
  }
  const planes = new Uint8Array(3 * size * size);
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      const from = ((y + top) * current.width + x + left) * 4;
      for (let c = 0; c < 3; c++) planes[c * size * size + y * size + x] = current.data[from + c];
    }
  }
  return planes;
}
