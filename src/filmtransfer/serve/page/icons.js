// Icons as SVG paths. They are decorative; the text beside them is the label.

import { svg } from "./dom.js";

const PATHS = {
  add: "M12 5v14M5 12h14",
  camera: "M4 8h3l2-3h6l2 3h3v11H4zM12 16.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7z",
  photos: "M4 5h16v14H4zM4 16l5-5 4 4 2-2 5 5M15.5 9.5h.01",
  folder: "M4 6h6l2 2.500h8V19H4z",
  down: "M7 10l5 5 5-5",
  edit: "M5 19l1-4L16 5l3 3L9 18zM14 7l3 3",
  bin: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5",
  close: "M6 6l12 12M18 6L6 18",
  back: "M14 6l-6 6 6 6",
  next: "M10 6l6 6-6 6",
  move: "M4 12h14M13 6l6 6-6 6",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  upload: "M12 16V5M7 9l5-5 5 5M5 20h14",
  restore: "M5 12a7 7 0 1 0 2.5-5.4M5 4v4.5h4.5",
  moon: "M19 14.5A7.5 7.5 0 0 1 9.5 5a7.5 7.5 0 1 0 9.500 9.500z",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 2.500v2.200M12 19.300v2.200M2.500 12h2.200M19.300 12h2.200M5.300 5.300l1.500 1.500M17.200 17.200l1.500 1.500M18.700 5.300l-1.500 1.500M6.800 17.200l-1.500 1.500",
  sound: "M4 10v4h3l5 4V6l-5 4zM15.500 9a4 4 0 0 1 0 6M18 6.500a8 8 0 0 1 0 11",
  play: "M8 5l11 7-11 7z",
  stop: "M7 7h10v10H7z",
  warn: "M12 4l9 16H3zM12 10v4.500M12 17.200v.1",
};

export function icon(name) {
  return svg(
    "svg",
    { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" },
    svg("path", { d: PATHS[name] }),
  );
}
