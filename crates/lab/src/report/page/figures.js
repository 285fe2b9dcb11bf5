// A figure for all rows of a group: a curve if they are levels of one quantity, bars otherwise.
const FIGURE_HEIGHT = 340, FIGURE_BOTTOM = 64;

function figures(figure, group) {
  const known = Object.keys(data.metrics).filter((name) => group.rows.some((row) => row.figures[name]));
  if (known.length === 0) { figure.remove(); return; }
  const note = caption();
  let name = known.includes(group.primary) ? group.primary : known[0];
  const head = (name) => data.metrics[name].title + (data.metrics[name].unit ? ", " + data.metrics[name].unit : "");
  figure.append(choice("Figure", known.map((name) => [name, head(name)]), name, (chosen) => { name = chosen; redraw(); }));
  const legend = () => {
    const rows = group.rows.filter((row) => row.figures[name]);
    const parts = [rows.some((row) => row.figures[name][1] !== null) ? "Discs are means with their 95 % intervals" : "Discs are measured"];
    if (name === group.primary && rows.some((row) => row.trials.length > 1)) parts.push("small discs single trials");
    if (rows.some((row) => row.published[name] !== undefined)) parts.push("diamonds published");
    return parts.join(", ") + ".";
  };
  const redraw = chart(figure, note, () => figureChart(group, name, note), legend);
}

// The range of an axis: from zero, unless all values are close together.
function span(values) {
  let low = Math.min(...values), high = Math.max(...values);
  if (low > 0 && low < 0.9 * high || low === high) low = Math.min(0, low);
  if (low === high) high = low + 1;
  const room = (high - low) * 0.06;
  return [low === 0 ? 0 : low - room, high + room];
}

function figureText(row, name) {
  const metric = data.metrics[name], show = (value) => round(value / metric.scale);
  const [mean, half, count] = row.figures[name];
  const published = row.published[name];
  return `${row.label}: ${show(mean)}${half === null ? "" : " ± " + show(half)} ${metric.unit}`.trimEnd()
    + (count > 1 ? `, mean of ${count} trials with its 95 % interval` : "")
    + (published === undefined ? "" : `; published ${show(published)}`);
}

function figureChart(group, name, note) {
  const metric = data.metrics[name], isPrimary = name === group.primary;
  const show = (value) => value / metric.scale;
  const rows = group.rows.filter((row) => row.figures[name]);
  const levels = rows.filter((row) => !row.baseline);
  const isCurve = levels.length > 2 && levels.every((row, at) => row.position > 0 && (at === 0 || levels[at - 1].position < row.position));
  const shown = isCurve ? levels : rows;
  const values = rows.flatMap((row) => {
    const [mean, half] = row.figures[name];
    const published = row.published[name];
    return [mean - (half || 0), mean + (half || 0)].concat(published === undefined ? [] : [published]);
  }).concat(isPrimary ? rows.flatMap((row) => row.trials) : []).map(show);
  const [low, high] = span(values), bottom = FIGURE_HEIGHT - FIGURE_BOTTOM;
  const y = (value) => bottom - (value - low) / (high - low) * (bottom - TOP);
  const inner = width - left() - RIGHT, logs = shown.map((row) => Math.log(row.position));
  const x = (at) => isCurve
    ? left() + 24 + (logs[at] - logs[0]) / (logs[logs.length - 1] - logs[0]) * (inner - 48)
    : left() + (at + 0.5) / shown.length * inner;
  const by = group.factors.join(", ") || "trial";
  const svg = frame(FIGURE_HEIGHT, `${metric.title} by ${by}`, rows.map((row) => figureText(row, name)).join(". "));
  for (const tick of ticks(low, high)) gridLine(svg, y(tick), tickText(tick));
  axisNames(svg, FIGURE_HEIGHT - 6, by, (bottom + TOP) / 2, metric.title + (metric.unit ? ` (${metric.unit})` : ""));
  const base = rows.find((row) => row.baseline);
  if (isCurve && base) {
    const at = y(show(base.figures[name][0]));
    const line = mark(svg, note, figureText(base, name));
    line.append(element("line", { class: "base", x1: left(), x2: width - RIGHT, y1: at, y2: at }));
    line.append(element("text", { class: "base-text", x: width - RIGHT, y: at - 5, "text-anchor": "end" }, base.label));
  }
  if (isCurve) {
    const points = shown.map((row, at) => `${x(at)},${y(show(row.figures[name][0]))}`);
    svg.append(element("polyline", { class: "curve", points: points.join(" ") }));
  }
  shown.forEach((row, at) => drawRow(mark(svg, note, figureText(row, name)), row, name, x(at), (value) => y(show(value)), isPrimary));
  rowNames(svg, shown, x, bottom, inner);
  arrows(svg);
  return svg;
}

function drawRow(group, row, name, middle, y, isPrimary) {
  const [mean, half] = row.figures[name];
  if (isPrimary && row.trials.length > 1) for (const trial of row.trials)
    group.append(element("circle", { class: "trial", cx: middle, cy: y(trial), r: 2.5 }));
  if (half) for (const [x1, x2, y1, y2] of [[0, 0, mean - half, mean + half], [-6, 6, mean - half, mean - half], [-6, 6, mean + half, mean + half]])
    group.append(element("line", { class: "bar", x1: middle + x1, x2: middle + x2, y1: y(y1), y2: y(y2) }));
  group.append(element("circle", { class: row.baseline ? "dot baseline" : "dot", cx: middle, cy: y(mean), r: 5 }));
  const published = row.published[name];
  if (published !== undefined) group.append(element("path", { class: "published", d: `M${middle} ${y(published) - 7}l7 7l-7 7l-7 -7z` }));
}

// As many names as fit, slanted if they would overlap.
function rowNames(svg, rows, x, bottom, inner) {
  const every = Math.ceil(rows.length / (inner / 44));
  const isSlanted = rows.some((row) => row.label.length * 7.5 > inner / rows.length * every);
  rows.forEach((row, at) => {
    if (at % every !== 0) return;
    const place = isSlanted
      ? { x: x(at) + 4, y: bottom + 15, "text-anchor": "end", transform: `rotate(-25 ${x(at)} ${bottom + 15})` }
      : { x: x(at), y: bottom + 18, "text-anchor": "middle" };
    svg.append(element("text", place, short(row.label, width < 500 ? 12 : 20)));
  });
}
