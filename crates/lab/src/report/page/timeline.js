// Events over time in the first trial of a row: calls a second, and below them lanes for commits
// and waits.
const PLOT_HEIGHT = 200, LANE_HEIGHT = 34, LANE_BAR = 14, TIMELINE_TOP = 52, TIMELINE_BOTTOM = 44;

function timeline(figure, group) {
  const rows = group.rows.filter((row) => row.timeline);
  if (rows.length === 0) { figure.remove(); return; }
  const note = caption();
  let row = rows[0];
  figure.append(choice("What happened when:", rows.map((row, at) => [String(at), row.label]), "0",
    (chosen) => { row = rows[Number(chosen)]; redraw(); }));
  const redraw = chart(figure, note, () => timelineChart(row, note),
    () => "The first trial; each bar is as high as its share of the highest in its row.",
    "Point at an instant, or reach the chart with Tab and go on with the arrow keys, to read it.");
}

const inSeconds = (ns) => round(ns / 1e9);
const amount = (series, value) => series.isTime ? duration(value) : round(value);
const sum = (values) => values.reduce((all, value) => all + value, 0);

function instantText(time, at) {
  const { interval, calls, counted, phases } = time;
  const phase = phases.findLast(([, began]) => began < (at + 1) * interval);
  const parts = [`${inSeconds(at * interval)} to ${inSeconds((at + 1) * interval)} s${phase ? ", " + phase[0] : ""}: ${round(calls[at] * 1e9 / interval)} calls a second`];
  for (const series of counted) if (series.counts[at])
    parts.push(series.isTime ? `callers waited ${amount(series, series.counts[at])} (${series.title})` : `${amount(series, series.counts[at])} ${series.title}`);
  return parts.join("; ");
}

function timelineChart(row, note) {
  const time = row.timeline, { interval, calls, counted, phases } = time;
  const count = calls.length, bottom = TIMELINE_TOP + PLOT_HEIGHT, lanes = bottom + TIMELINE_BOTTOM;
  const rates = calls.map((calls) => calls * 1e9 / interval), high = Math.max(...rates, 1) * 1.05;
  const inner = width - left() - RIGHT;
  const x = (at) => left() + at / count * inner, y = (rate) => bottom - rate / high * PLOT_HEIGHT;
  const all = `${inSeconds(count * interval)} s, ${round(sum(calls) * 1e9 / (count * interval))} calls a second on average`;
  const svg = frame(lanes + counted.length * LANE_HEIGHT, `calls a second over time: ${row.label}`,
    [all, ...counted.map((series) => `${series.title} ${amount(series, sum(series.counts))}`)].join(". "));
  for (const tick of ticks(0, high, 4)) gridLine(svg, y(tick), tickText(tick));
  for (const tick of ticks(0, count * interval / 1e9, width < 500 ? 4 : 8))
    svg.append(element("text", { x: x(tick * 1e9 / interval), y: bottom + 16, "text-anchor": "middle" }, round(tick)));
  axisNames(svg, bottom + 34, "seconds from the beginning", "calls a second");
  phases.forEach(([name, began, took], at) => {
    const from = x(began / interval), room = took / interval / count * inner;
    svg.append(element("line", { class: "phase", x1: from, x2: from, y1: TIMELINE_TOP - 18, y2: bottom }));
    if (room > textWidth(name) + 8) svg.append(element("text", { class: "quiet", x: from + 4, y: TIMELINE_TOP - 6 }, name));
  });
  const steps = rates.map((rate, at) => `H${x(at).toFixed(1)}V${y(rate).toFixed(1)}`).join("");
  svg.append(element("path", { class: "area", d: `M${left()} ${bottom}${steps}H${x(count)}V${bottom}Z` }));
  counted.forEach((series, lane) => drawLane(svg, series, x, lanes + lane * LANE_HEIGHT));
  cursor(svg, time, note, x, lanes + counted.length * LANE_HEIGHT);
  return svg;
}

// A lane has its name and total as text, and in each interval a bar relative to the highest.
function drawLane(svg, series, x, top) {
  const highest = Math.max(...series.counts), base = top + LANE_HEIGHT - 4;
  const all = amount(series, sum(series.counts));
  const name = series.isTime ? `waited for ${all}: ${series.title}` : `${series.title}: ${all}`;
  svg.append(element("text", { x: 4, y: top + 12 }, name));
  const thick = Math.max(x(1) - x(0), 1.5);
  const bars = series.counts.map((value, at) => value
    ? `M${x(at).toFixed(1)} ${base}v${(-Math.max(value / highest * LANE_BAR, 2)).toFixed(1)}h${thick.toFixed(1)}V${base}z` : "");
  svg.append(element("line", { class: "grid", x1: left(), x2: width - RIGHT, y1: base, y2: base }));
  svg.append(element("path", { class: series.isTime ? "stall" : "event", d: bars.join("") }));
}

// A time cursor, one stop of the Tab key: the arrow keys move it, and it describes each interval.
function cursor(svg, time, note, x, bottom) {
  const last = time.calls.length - 1;
  const slider = element("g", { class: "mark cursor", tabindex: "0", role: "slider", "aria-label": "instant",
    "aria-valuemin": "0", "aria-valuemax": String(last), "aria-valuenow": "0", "aria-valuetext": instantText(time, 0) });
  const line = element("line", { y1: TIMELINE_TOP - 18, y2: bottom, x1: x(0.5), x2: x(0.5) });
  slider.append(line);
  svg.append(slider);
  let now = 0;
  const go = (at) => {
    now = Math.min(Math.max(at, 0), last);
    line.setAttribute("x1", x(now + 0.5));
    line.setAttribute("x2", x(now + 0.5));
    slider.setAttribute("aria-valuenow", String(now));
    slider.setAttribute("aria-valuetext", instantText(time, now));
    slider.classList.add("on");
    note.textContent = instantText(time, now);
  };
  slider.addEventListener("focus", () => go(now));
  slider.addEventListener("keydown", (event) => {
    const to = { ArrowRight: now + 1, ArrowUp: now + 1, ArrowLeft: now - 1, ArrowDown: now - 1,
      PageUp: now + 20, PageDown: now - 20, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    go(to);
  });
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width * width;
    go(Math.floor((at - left()) / (width - left() - RIGHT) * (last + 1)));
  });
}
