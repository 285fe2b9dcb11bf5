// A figure for all rows of a group: a curve if they are levels of one quantity and their names fit
// below it, otherwise a line for each row: its name stands beside it, or above it on narrow screens.
const FIGURE_HEIGHT = 340, FIGURE_BOTTOM = 56, ROW_HEIGHT = 46, ROW_HEIGHT_BESIDE = 28, ROWS_BOTTOM = 48;

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
    const base = rows.find((row) => row.baseline);
    if (base) parts.push(`the dashed line${base.figures[name][1] ? " and its band are" : " is"} ${base.label}`);
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
  const rows = group.rows.filter((row) => row.figures[name]);
  const levels = rows.filter((row) => !row.baseline);
  const values = rows.flatMap((row) => {
    const [mean, half] = row.figures[name];
    const published = row.published[name];
    return [mean - (half || 0), mean + (half || 0)].concat(published === undefined ? [] : [published]);
  }).concat(isPrimary ? rows.flatMap((row) => row.trials) : []).map((value) => value / metric.scale);
  const plot = {
    rows, name, note, isPrimary, range: span(values), base: rows.find((row) => row.baseline),
    by: group.factors.join(", ") || "trial", title: metric.title + (metric.unit ? `, ${metric.unit}` : ""),
    show: (value) => value / metric.scale,
    description: rows.map((row) => figureText(row, name)).join(". "),
  };
  const isCurve = levels.length > 2 && levels.every((row, at) => row.position > 0 && (at === 0 || levels[at - 1].position < row.position));
  const x = isCurve ? curvePlaces(levels) : null;
  const svg = x ? curveChart(plot, levels, x) : rowChart(plot);
  arrows(svg);
  return svg;
}

// The places of levels on a logarithmic axis; null if two names would meet.
function curvePlaces(levels) {
  const logs = levels.map((row) => Math.log(row.position)), inner = width - left() - RIGHT;
  const ends = [0, levels.length - 1].map((at) => textWidth(levels[at].label) / 2 + 4);
  const x = logs.map((log) => left() + ends[0] + (log - logs[0]) / (logs[logs.length - 1] - logs[0]) * (inner - ends[0] - ends[1]));
  const meets = levels.some((row, at) => at > 0 && x[at] - x[at - 1] < (textWidth(row.label) + textWidth(levels[at - 1].label)) / 2 + 6);
  return meets ? null : x;
}

function curveChart(plot, levels, x) {
  const { name, note, show, range: [low, high], base } = plot, bottom = FIGURE_HEIGHT - FIGURE_BOTTOM;
  const y = (value) => bottom - (show(value) - low) / (high - low) * (bottom - TOP);
  const svg = frame(FIGURE_HEIGHT, `${plot.title} by ${plot.by}`, plot.description);
  for (const tick of ticks(low, high)) gridLine(svg, bottom - (tick - low) / (high - low) * (bottom - TOP), tickText(tick));
  axisNames(svg, FIGURE_HEIGHT - 8, plot.by, plot.title);
  if (base) {
    const [mean, half] = base.figures[name], at = y(mean), line = mark(svg, note, figureText(base, name));
    if (half) line.append(element("rect", { class: "band", x: left(), width: width - RIGHT - left(), y: y(mean + half), height: y(mean - half) - y(mean + half) }));
    line.append(element("line", { class: "base", x1: left(), x2: width - RIGHT, y1: at, y2: at }));
  }
  svg.append(element("polyline", { class: "curve", points: levels.map((row, at) => `${x[at]},${y(row.figures[name][0])}`).join(" ") }));
  levels.forEach((row, at) => {
    drawRow(mark(svg, note, figureText(row, name)), row, plot, (value) => [x[at], y(value)], [6, 0]);
    svg.append(element("text", { class: "name", x: x[at], y: bottom + 20, "text-anchor": "middle" }, row.label));
  });
  return svg;
}

function rowChart(plot) {
  const { rows, name, note, show, range: [low, high], base } = plot;
  const widest = Math.max(...rows.map((row) => textWidth(row.label))), isBeside = widest < 0.35 * width;
  const height = isBeside ? ROW_HEIGHT_BESIDE : ROW_HEIGHT, bottom = TOP + rows.length * height, from = isBeside ? widest + 20 : 8;
  const place = (value) => from + (value - low) / (high - low) * (width - RIGHT - from), x = (value) => place(show(value));
  const svg = frame(bottom + ROWS_BOTTOM, `${plot.title} by ${plot.by}`, plot.description);
  let end = from - 8;
  for (const tick of ticks(low, high, width < 500 ? 4 : 8)) {
    const at = place(tick), text = tickText(tick), half = textWidth(text) / 2;
    svg.append(element("line", { class: "grid", x1: at, x2: at, y1: TOP, y2: bottom }));
    const middle = Math.min(Math.max(at, half), width - half);
    if (middle - half < end) continue;
    end = middle + half + 6;
    svg.append(element("text", { x: middle, y: bottom + 18, "text-anchor": "middle" }, text));
  }
  axisNames(svg, bottom + 40, plot.title, plot.by);
  if (base) {
    const [mean, half] = base.figures[name];
    if (half) svg.append(element("rect", { class: "band", x: x(mean - half), width: x(mean + half) - x(mean - half), y: TOP, height: bottom - TOP }));
    svg.append(element("line", { class: "base", x1: x(mean), x2: x(mean), y1: TOP, y2: bottom }));
  }
  rows.forEach((row, at) => {
    const top = TOP + at * height, middle = top + height - 14;
    drawRow(mark(svg, note, figureText(row, name)), row, plot, (value) => [x(value), middle], [0, 6]);
    const text = isBeside ? { x: from - 12, y: middle + 4, "text-anchor": "end" } : { x: from, y: top + 16 };
    svg.append(fitted(row.label, isBeside ? from - 12 : width - RIGHT - from, text));
  });
  return svg;
}

// A name in one line; one that is too long is drawn closer together, never cut.
function fitted(label, room, place) {
  const text = element("text", { class: "name", ...place }, label);
  if (textWidth(label) > room) for (const [key, value] of [["textLength", room], ["lengthAdjust", "spacingAndGlyphs"]]) text.setAttribute(key, value);
  return text;
}

// A row's mean with its interval, its trials and the published figure; `end` is the half of the
// line at the ends of the interval.
function drawRow(group, row, { name, isPrimary }, at, [endX, endY]) {
  const [mean, half] = row.figures[name];
  const line = ([x1, y1], [x2, y2]) => group.append(element("line", { class: "bar", x1, x2, y1, y2 }));
  if (isPrimary && row.trials.length > 1) for (const trial of row.trials) {
    const [cx, cy] = at(trial);
    group.append(element("circle", { class: "trial", cx, cy, r: 2.5 }));
  }
  if (half) {
    line(at(mean - half), at(mean + half));
    for (const [x, y] of [at(mean - half), at(mean + half)]) line([x - endX, y - endY], [x + endX, y + endY]);
  }
  const [cx, cy] = at(mean);
  group.append(element("circle", { class: row.baseline ? "dot baseline" : "dot", cx, cy, r: 5 }));
  const published = row.published[name];
  if (published === undefined) return;
  const [x, y] = at(published);
  group.append(element("path", { class: "published", d: `M${x} ${y - 7}l7 7l-7 7l-7 -7z` }));
}
