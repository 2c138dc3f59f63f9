// Places of labels in the drawing.
const LABEL_HEIGHT = 15; // pixels

// The place of a label beside a node: the first of those around it that covers no title.
const labelPlace = ([x, y], width, titles) => {
  const places = [[x + 8, y + 4], [x + 8, y - 4 - LABEL_HEIGHT], [x - 8 - width, y + 4], [x - 8 - width, y - 4 - LABEL_HEIGHT]];
  const isFree = ([left, top]) => titles.every((box) =>
    left > box[2] || left + width < box[0] || top > box[3] || top + LABEL_HEIGHT < box[1]);
  return places.find(isFree) ?? places[0];
};
