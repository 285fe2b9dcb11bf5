"use strict";
// Draws the charts of a report and sorts its tables. Without the script, text and tables remain
// readable.
// Shared by all charts: elements, number formats, axes, and marks for pointer and keyboard.

const data = JSON.parse(document.getElementById("data").textContent);
const WIDTH_MIN = 300, WIDTH_MAX = 1000, RIGHT = 16, TOP = 34;
// Width of a letter of the charts' font, at most.
const LETTER = 7.5;
const HINT = "Point at a mark, or reach it with Tab and the arrow keys, to read it.";
// Charts are drawn at the displayed width, so that letters keep their size on every screen.
let width = WIDTH_MIN;
const left = () => width < 500 ? 60 : 72;
const textWidth = (text) => text.length * LETTER;

const element = (name, attributes, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};
const round = (value) => {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e6 || size < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(4)));
};
const duration = (ns) => {
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) if (ns >= size) return round(ns / size) + " " + unit;
  return round(ns) + " ns";
};
// A short number for an axis.
const tickText = (value) => Math.abs(value) >= 1e4 && Math.abs(value) < 1e9
  ? Math.abs(value) >= 1e6 ? round(value / 1e6) + " M" : round(value / 1e3) + " k" : round(value);
// Round steps between low and high, approximately count of them.
const ticks = (low, high, count = 5) => {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const all = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) all.push(Math.abs(at) < step / 1e6 ? 0 : at);
  return all;
};
// A chart with a label and a text description for screen readers.
const frame = (height, name, description) => {
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": name });
  svg.append(element("desc", {}, description));
  return svg;
};
const gridLine = (svg, y, label) => {
  svg.append(element("line", { class: "grid", x1: left(), x2: width - RIGHT, y1: y, y2: y }));
  svg.append(element("text", { x: left() - 8, y: y + 4, "text-anchor": "end" }, label));
};
// The name of the vertical axis stands above it, where it meets no number.
const axisNames = (svg, bottom, xName, yName) => {
  svg.append(element("text", { class: "quiet", x: 4, y: 14 }, yName));
  svg.append(element("text", { class: "quiet", x: width - RIGHT, y: bottom, "text-anchor": "end" }, xName));
};
// A mark that the pointer and the Tab key can reach; the note below shows its description.
const mark = (parent, note, text) => {
  const group = element("g", { class: "mark", tabindex: "0", role: "img", "aria-label": text });
  group.append(element("title", {}, text));
  for (const event of ["focus", "pointerenter"]) group.addEventListener(event, () => { note.textContent = text; });
  parent.append(group);
  return group;
};
// The arrow keys move between marks; a chart is one stop of the Tab key.
const arrows = (svg) => {
  const marks = [...svg.querySelectorAll(".mark")];
  marks.forEach((mark, at) => mark.setAttribute("tabindex", at ? "-1" : "0"));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const at = marks.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = marks[(at + step + marks.length) % marks.length];
    marks[at].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
};
const choice = (label, options, chosen, change) => {
  const outer = document.createElement("label");
  outer.append(label + " ");
  const select = document.createElement("select");
  for (const [value, text] of options) select.add(new Option(text, value, value === chosen, value === chosen));
  select.addEventListener("change", () => change(select.value));
  outer.append(select);
  return outer;
};
// The note below a chart, read out by screen readers when it changes.
const caption = () => {
  const note = document.createElement("figcaption");
  note.setAttribute("aria-live", "polite");
  return note;
};
// The default text of the note; in print without the instructions.
const explain = (note, legend, how) => {
  const hint = document.createElement("span");
  hint.className = "hint";
  hint.textContent = how;
  note.replaceChildren(legend + " ", hint);
};
// A figure that is redrawn when a selection or the width changes; `draw` creates the chart.
const redraws = [];
const chart = (figure, note, draw, legend, how = HINT) => {
  let svg = null;
  const redraw = () => {
    const next = draw();
    svg ? svg.replaceWith(next) : figure.append(next);
    svg = next;
    explain(note, legend(), how);
  };
  redraw();
  redraws.push(redraw);
  figure.append(note);
  return redraw;
};
const measureWidth = () => {
  const room = Math.round(document.querySelector("main").clientWidth);
  return Math.min(Math.max(room, WIDTH_MIN), WIDTH_MAX);
};
