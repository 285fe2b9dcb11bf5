// Latencies of calls: a curve for each row, from the median to the maximum.
const LATENCY_HEIGHT = 340, LATENCY_BOTTOM = 64, CURVES = 6;
const DASHES = ["", "6 3", "2 3", "10 4 2 4", "1 4", "12 6"];

function latencies(figure, group) {
  const kinds = [...new Set(group.rows.flatMap((row) => Object.keys(row.latencies)))];
  if (kinds.length === 0) { figure.remove(); return; }
  const note = caption();
  let kind = kinds.includes("write") ? "write" : kinds[0];
  // The default number of curves stays readable; the reader can select others.
  const shown = group.rows.map((_, at) => at).slice(0, CURVES);
  figure.append(choice("Latency of", kinds.map((kind) => [kind, kind]), kind, (chosen) => { kind = chosen; redraw(); }));
  if (group.rows.length > CURVES) {
    const list = document.createElement("div");
    list.className = "curves";
    shown.forEach((_, place) => list.append(choice(`Curve ${place + 1}:`, group.rows.map((row, at) => [String(at), row.label]), String(place),
      (chosen) => { shown[place] = Number(chosen); redraw(); })));
    figure.append(list);
  }
  const redraw = chart(figure, note, () => latencyChart(shown.map((at) => group.rows[at]), kind, note),
    () => "How long the slowest calls took: one in two, in ten, in a hundred, and so on.");
}

function latencyText(row, kind) {
  const told = [0.5, 0.99, 1].map((share) => {
    const [, ns] = row.latencies[kind].find(([own]) => own === share);
    return (share === 0.5 ? "median " : share === 1 ? "slowest " : "99 % within ") + duration(ns);
  });
  return `${row.label}: ${told.join(", ")}`;
}

function latencyChart(chosen, kind, note) {
  const rows = chosen.filter((row) => row.latencies[kind]);
  const names = width < 500 ? 0 : 130, bottom = LATENCY_HEIGHT - LATENCY_BOTTOM;
  // The last quantile, 1, is drawn one step after the one before it.
  const place = (share) => share >= 1 ? 5 : -Math.log10(1 - share);
  const all = rows.flatMap((row) => row.latencies[kind].map(([, ns]) => Math.max(ns, 1)));
  const low = Math.floor(Math.log10(Math.min(...all, 1e9))), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...all, 1))));
  const x = (share) => left() + place(share) / 5 * (width - left() - RIGHT - names);
  const y = (ns) => bottom - (Math.log10(Math.max(ns, 1)) - low) / (high - low) * (bottom - TOP);
  const svg = frame(LATENCY_HEIGHT, `latency of ${kind} by how rare it is`, rows.map((row) => latencyText(row, kind)).join(". "));
  for (let power = low; power <= high; power++) gridLine(svg, y(10 ** power), duration(10 ** power));
  const shares = [[0, "all"], [0.9, "90 %"], [0.99, "99 %"], [0.999, "99.9 %"], [0.9999, "99.99 %"], [1, "slowest"]];
  for (const [share, label] of width < 500 ? shares.filter((_, at) => at % 2 === 1) : shares)
    svg.append(element("text", { x: x(share), y: bottom + 18, "text-anchor": share === 1 ? "end" : "middle" }, label));
  axisNames(svg, LATENCY_HEIGHT - 14, "share of calls that were faster", (bottom + TOP) / 2, "latency");
  let below = -Infinity;
  const ends = rows.map((row, at) => [row, at, y(row.latencies[kind].at(-1)[1])]).sort((a, b) => a[2] - b[2]);
  for (const [row, at, end] of ends) {
    const points = row.latencies[kind].map(([share, ns]) => `${x(share)},${y(ns)}`);
    const line = mark(svg, note, latencyText(row, kind));
    line.append(element("polyline", { class: "curve series-" + at % CURVES, "stroke-dasharray": DASHES[at % DASHES.length], points: points.join(" ") }));
    below = Math.max(end, below + 16);
    // Without room beside the curves, their names are above the low start of the curves, each with
    // a sample of its line.
    const where = names ? { x: x(1) + 8, y: below + 4 } : { x: left() + 40, y: TOP + 15 * (at + 1) };
    if (!names) line.append(element("line", { class: "curve series-" + at % CURVES, "stroke-dasharray": DASHES[at % DASHES.length],
      x1: left() + 6, x2: left() + 34, y1: where.y - 4, y2: where.y - 4 }));
    line.append(element("text", { class: "series-text-" + at % CURVES, ...where }, short(row.label, 18)));
  }
  arrows(svg);
  return svg;
}
