// Latencies of calls: a curve for each row, from the median to the maximum.
const LATENCY_HEIGHT = 340, LATENCY_BOTTOM = 56, CURVES = 6;
const DASHES = ["", "6 3", "2 3", "10 4 2 4", "1 4", "12 6"];

function latencies(figure, group) {
  if (group.calls.length === 0) { figure.remove(); return; }
  const note = caption(), names = document.createElement("ul");
  names.className = "names";
  // The first call is the one in which most time was spent.
  let [[kind]] = group.calls;
  // The default number of curves stays readable; the reader can select others.
  const shown = group.rows.map((_, at) => at).slice(0, CURVES);
  const options = group.calls.map(([kind, share]) => [kind, `${kind} (${Math.round(share * 100)} % of the time in calls)`]);
  figure.append(choice("Latency of", options, kind, (chosen) => { kind = chosen; redraw(); }));
  if (group.rows.length > CURVES) {
    const list = document.createElement("div");
    list.className = "curves";
    shown.forEach((_, place) => list.append(choice(`Curve ${place + 1}:`, group.rows.map((row, at) => [String(at), row.label]), String(place),
      (chosen) => { shown[place] = Number(chosen); redraw(); })));
    figure.append(list);
  }
  const redraw = chart(figure, note, () => latencyChart(shown.map((at) => group.rows[at]), kind, note, names),
    () => "How long the slowest calls took: one in two, in ten, in a hundred, and so on.");
  figure.insertBefore(names, note);
}

function latencyText(row, kind) {
  const told = [0.5, 0.99, 1].map((share) => {
    const [, ns] = row.latencies[kind].find(([own]) => own === share);
    return (share === 0.5 ? "median " : share === 1 ? "slowest " : "99 % within ") + duration(ns);
  });
  return `${row.label}: ${told.join(", ")}`;
}

const curveLook = (at) => ({ class: "curve series-" + at % CURVES, "stroke-dasharray": DASHES[at % DASHES.length] });

// The name of a curve with a sample of its line, below the chart, where every name has room.
function curveName(row, at) {
  const item = document.createElement("li"), sample = element("svg", { viewBox: "0 0 28 10", class: "sample", "aria-hidden": "true" });
  sample.append(element("line", { ...curveLook(at), x1: 0, x2: 28, y1: 5, y2: 5 }));
  item.append(sample, " " + row.label);
  return item;
}

function latencyChart(chosen, kind, note, names) {
  const rows = chosen.filter((row) => row.latencies[kind]), bottom = LATENCY_HEIGHT - LATENCY_BOTTOM;
  // The last quantile, 1, is drawn one step after the one before it.
  const place = (share) => share >= 1 ? 5 : -Math.log10(1 - share);
  const all = rows.flatMap((row) => row.latencies[kind].map(([, ns]) => Math.max(ns, 1)));
  const low = Math.floor(Math.log10(Math.min(...all, 1e9))), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...all, 1))));
  const x = (share) => left() + 4 + place(share) / 5 * (width - left() - RIGHT - 8);
  const y = (ns) => bottom - (Math.log10(Math.max(ns, 1)) - low) / (high - low) * (bottom - TOP);
  const svg = frame(LATENCY_HEIGHT, `latency of ${kind} by how rare it is`, rows.map((row) => latencyText(row, kind)).join(". "));
  for (let power = low; power <= high; power++) gridLine(svg, y(10 ** power), duration(10 ** power));
  for (const [share, label] of [[0, "0"], [0.9, "90"], [0.99, "99"], [0.999, "99.9"], [0.9999, "99.99"], [1, "100"]])
    svg.append(element("text", { x: x(share), y: bottom + 18, "text-anchor": "middle" }, label));
  axisNames(svg, LATENCY_HEIGHT - 8, "% of calls were faster", "latency of " + kind);
  rows.forEach((row, at) => {
    const points = row.latencies[kind].map(([share, ns]) => `${x(share)},${y(ns)}`);
    mark(svg, note, latencyText(row, kind)).append(element("polyline", { ...curveLook(at), points: points.join(" ") }));
  });
  names.replaceChildren(...rows.map(curveName));
  arrows(svg);
  return svg;
}
