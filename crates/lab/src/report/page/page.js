"use strict";
// Draws the charts of a report and sorts its tables. Without it the page still has its words and tables.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const WIDTH = 720, HEIGHT = 340, LEFT = 78, RIGHT = 16, TOP = 16, BOTTOM = 62;
  const DASHES = ["", "6 3", "2 3", "10 4 2 4", "1 4", "12 6"];

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
  // Round steps between low and high: about five.
  const ticks = (low, high) => {
    const rough = (high - low) / 5 || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    const all = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) all.push(Math.abs(at) < step / 1e6 ? 0 : at);
    return all;
  };
  const frame = (label) => element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": label });
  // Something that can be pointed at and reached by the Tab key; what it is stands in the note below.
  const mark = (parent, note, text) => {
    const group = element("g", { class: "mark", tabindex: "0", role: "img", "aria-label": text });
    group.append(element("title", {}, text));
    for (const event of ["focus", "pointerenter"]) group.addEventListener(event, () => { note.textContent = text; });
    parent.append(group);
    return group;
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
  const arrows = (svg) => svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const marks = [...svg.querySelectorAll(".mark")], at = marks.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    marks[(at + step + marks.length) % marks.length].focus();
  });

  function figures(figure, group) {
    const known = Object.keys(data.metrics).filter((name) => group.rows.some((row) => row.figures[name]));
    if (known.length === 0) return;
    const note = document.createElement("figcaption");
    note.setAttribute("aria-live", "polite");
    let svg = null;
    const draw = (name) => {
      const next = figureChart(group, name, note);
      svg ? svg.replaceWith(next) : figure.append(next);
      svg = next;
      note.textContent = "Point at a mark, or reach it with Tab and the arrow keys, to read it.";
    };
    const first = known.includes(group.primary) ? group.primary : known[0];
    const head = (name) => data.metrics[name].title + (data.metrics[name].unit ? ", " + data.metrics[name].unit : "");
    figure.append(choice("Figure", known.map((name) => [name, head(name)]), first, draw));
    draw(first);
    figure.append(note);
  }

  function figureChart(group, name, note) {
    const metric = data.metrics[name], isPrimary = name === group.primary;
    const show = (value) => value / metric.scale;
    const rows = group.rows.filter((row) => row.figures[name]);
    const curve = rows.filter((row) => !row.baseline);
    const isCurve = curve.length > 2 && curve.every((row, at) => row.position > 0 && (at === 0 || curve[at - 1].position < row.position));
    const shown = isCurve ? curve : rows;
    const values = rows.flatMap((row) => {
      const [mean, half] = row.figures[name];
      const published = row.published[name];
      return [mean - (half || 0), mean + (half || 0)].concat(published === undefined ? [] : [published]);
    }).concat(isPrimary ? rows.flatMap((row) => row.trials) : []).map(show);
    let low = Math.min(...values), high = Math.max(...values);
    // The axis begins at zero unless all values lie close together.
    if (low > 0 && low < 0.9 * high || low === high) low = Math.min(0, low);
    if (low === high) high = low + 1;
    const room = (high - low) * 0.06;
    high += room;
    if (low !== 0) low -= room;
    const y = (value) => HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM);
    const logs = shown.map((row) => Math.log(row.position));
    const inner = WIDTH - LEFT - RIGHT;
    const x = (at) => isCurve
      ? LEFT + 30 + (logs[at] - logs[0]) / (logs[logs.length - 1] - logs[0]) * (inner - 60)
      : LEFT + (at + 0.5) / shown.length * inner;
    const svg = frame(`${metric.title} by ${group.factors.join(", ")}`);
    for (const tick of ticks(low, high)) {
      svg.append(element("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }));
      svg.append(element("text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, round(tick)));
    }
    svg.append(element("text", { x: 14, y: (HEIGHT - BOTTOM + TOP) / 2, transform: `rotate(-90 14 ${(HEIGHT - BOTTOM + TOP) / 2})`,
      "text-anchor": "middle" }, metric.title + (metric.unit ? " (" + metric.unit + ")" : "")));
    svg.append(element("text", { x: LEFT + inner / 2, y: HEIGHT - 6, "text-anchor": "middle" }, group.factors.join(", ") || "trial"));
    const base = rows.find((row) => row.baseline);
    if (isCurve && base) {
      const at = y(show(base.figures[name][0]));
      const line = mark(svg, note, text(base));
      line.append(element("line", { class: "base", x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at }));
      line.append(element("text", { class: "base-text", x: WIDTH - RIGHT, y: at - 5, "text-anchor": "end" }, base.label));
    }
    if (isCurve) {
      const points = shown.map((row, at) => `${x(at)},${y(show(row.figures[name][0]))}`);
      svg.append(element("polyline", { class: "curve", points: points.join(" ") }));
    }
    function text(row) {
      const [mean, half, count] = row.figures[name];
      const published = row.published[name];
      return `${row.label}: ${round(show(mean))}${half === null ? "" : " ± " + round(show(half))} ${metric.unit}`
        + (count > 1 ? `, mean of ${count} trials with its 95 % interval` : "")
        + (published === undefined ? "" : `; published ${round(show(published))}`);
    }
    const every = Math.ceil(shown.length / 12);
    shown.forEach((row, at) => {
      const [mean, half] = row.figures[name];
      const group = mark(svg, note, text(row));
      const middle = x(at);
      if (isPrimary && row.trials.length > 1) for (const trial of row.trials)
        group.append(element("circle", { class: "trial", cx: middle, cy: y(show(trial)), r: 2.5 }));
      if (half) for (const [x1, x2, y1, y2] of [[0, 0, mean - half, mean + half], [-6, 6, mean - half, mean - half], [-6, 6, mean + half, mean + half]])
        group.append(element("line", { class: "bar", x1: middle + x1, x2: middle + x2, y1: y(show(y1)), y2: y(show(y2)) }));
      group.append(element("circle", { class: "dot", cx: middle, cy: y(show(mean)), r: 5 }));
      const published = row.published[name];
      if (published !== undefined) {
        const py = y(show(published));
        group.append(element("path", { class: "published", d: `M${middle} ${py - 7}l7 7l-7 7l-7 -7z` }));
      }
      if (at % every === 0) {
        const label = row.label.length > 22 ? row.label.slice(0, 21) + "…" : row.label;
        const slanted = shown.length > 8 || label.length * shown.length > 80;
        svg.append(element("text", slanted
          ? { x: middle, y: HEIGHT - BOTTOM + 16, "text-anchor": "end", transform: `rotate(-20 ${middle} ${HEIGHT - BOTTOM + 16})` }
          : { x: middle, y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, label));
      }
    });
    arrows(svg);
    return svg;
  }

  function latencies(figure, group) {
    const kinds = [...new Set(group.rows.flatMap((row) => Object.keys(row.latencies)))];
    if (kinds.length === 0) { figure.remove(); return; }
    const note = document.createElement("figcaption");
    note.setAttribute("aria-live", "polite");
    let svg = null;
    const draw = (kind) => {
      const next = latencyChart(group, kind, note);
      svg ? svg.replaceWith(next) : figure.append(next);
      svg = next;
      note.textContent = "How long the slowest calls took: one in two, in ten, in a hundred, …";
    };
    const first = kinds.includes("write") ? "write" : kinds[0];
    figure.append(choice("Latency of", kinds.map((kind) => [kind, kind]), first, draw));
    draw(first);
    figure.append(note);
  }

  function latencyChart(group, kind, note) {
    const rows = group.rows.filter((row) => row.latencies[kind]);
    // The last quantile, 1, is drawn one step behind the last but one.
    const place = (p) => p >= 1 ? 5 : -Math.log10(1 - p);
    const all = rows.flatMap((row) => row.latencies[kind].map(([, ns]) => Math.max(ns, 1)));
    const low = Math.floor(Math.log10(Math.min(...all))), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...all))));
    const x = (p) => LEFT + place(p) / 5 * (WIDTH - LEFT - RIGHT - 130);
    const y = (ns) => HEIGHT - BOTTOM - (Math.log10(Math.max(ns, 1)) - low) / (high - low) * (HEIGHT - TOP - BOTTOM);
    const svg = frame(`latency of ${kind} by how rare it is`);
    for (let power = low; power <= high; power++) {
      svg.append(element("line", { class: "grid", x1: LEFT, x2: x(1), y1: y(10 ** power), y2: y(10 ** power) }));
      svg.append(element("text", { x: LEFT - 8, y: y(10 ** power) + 4, "text-anchor": "end" }, duration(10 ** power)));
    }
    for (const [p, label] of [[0, "all"], [0.9, "90 %"], [0.99, "99 %"], [0.999, "99.9 %"], [0.9999, "99.99 %"], [1, "slowest"]])
      svg.append(element("text", { x: x(p), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, label));
    svg.append(element("text", { x: (LEFT + x(1)) / 2, y: HEIGHT - 14, "text-anchor": "middle" }, "share of calls that were faster"));
    let below = -Infinity;
    const ends = rows.map((row, at) => [row, at, y(row.latencies[kind].at(-1)[1])]).sort((a, b) => a[2] - b[2]);
    for (const [row, at, end] of ends) {
      const points = row.latencies[kind];
      const told = [0.5, 0.99, 1].map((p) => {
        const found = points.find(([share]) => share === p);
        return (p === 0.5 ? "median " : p === 1 ? "slowest " : "99 % ") + duration(found[1]);
      });
      const line = mark(svg, note, `${row.label}: ${told.join(", ")}`);
      line.append(element("polyline", { class: "curve series-" + at % 6, "stroke-dasharray": DASHES[at % DASHES.length],
        points: points.map(([p, ns]) => `${x(p)},${y(ns)}`).join(" ") }));
      below = Math.max(end, below + 15);
      line.append(element("text", { class: "series-text-" + at % 6, x: x(1) + 8, y: below + 4 }, row.label.length > 17 ? row.label.slice(0, 16) + "…" : row.label));
    }
    arrows(svg);
    return svg;
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => Number(row.cells[column].dataset.value);
      const rows = [...table.tBodies[0].rows].sort((a, b) => (up ? 1 : -1) * (key(a) - key(b)));
      table.tBodies[0].append(...rows);
    }));
  }

  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const group = data.groups[Number(figure.dataset.group)];
    figure.dataset.chart === "figures" ? figures(figure, group) : latencies(figure, group);
  }
  document.querySelectorAll("table.sortable").forEach(sortable);
  document.documentElement.dataset.ready = "true";
})();
