// Charts: uPlot with the colours of the page. Each says in words what it shows.

import { h } from "./dom.js";

/* global uPlot */

const drawn = new Set();

/** A colour of the page as it is now: a canvas knows no variables. */
function colour(name, alpha = 1) {
  const probe = h("i", { style: { color: `var(--${name})` } });
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return alpha === 1 ? color : color.replace("rgb(", "rgba(").replace(")", `, ${alpha})`);
}

/** Draws all charts again, in the colours of the theme that holds now. */
export function repaint() {
  for (const chart of drawn) chart.draw();
}

const MINUTE = 60_000;
/** Steps of an axis of times: no 33 min 20 s. */
const SPANS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, ...[1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10_080, 43_200].map((one) => one * MINUTE)];
/** Steps of an axis of counts: no half of an entry. */
const WHOLE = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** power)).flat();
const DAY = 86_400;

/**
 * A chart over time, with its legend.
 *
 * `series`: `{label, colour, values, kind: "bar" | "line" | "area", step, scale, show(value)}`; bars and
 * areas are stacked when `stacked`. `at`: milliseconds. `said` is the chart in words, `right` how the
 * scale `r` reads.
 */
export function chart({ at, series, stacked = false, height = 180, said, show = String, times = false, right }) {
  const canvas = h("div.canvas", { style: { height: `${height}px` } });
  const values = series.map(() => h("b"));
  const moment = h("span.moment");
  const tell = (index) => {
    moment.textContent = index === null ? "" : clock.format(at[index]);
    values.forEach((node, i) => (node.textContent = index === null ? "" : (series[i].show ?? show)(series[i].values[index])));
  };
  const legend = h("p.legend", { "aria-hidden": "true" }, series.map((one, i) => h("span", null, h("i", { style: { background: `var(--${one.colour})` } }), one.label, " ", values[i])), moment);
  const state = { plot: null };
  state.draw = () => {
    if (!canvas.clientWidth) return;
    state.plot?.destroy();
    state.plot = plot(canvas, { at, series, stacked, height, show, times, right, tell });
  };
  const watch = new ResizeObserver(() => {
    if (!canvas.isConnected) {
      drawn.delete(state);
      watch.disconnect();
      state.plot?.destroy();
    } else if (state.plot) state.plot.setSize({ width: canvas.clientWidth, height });
    else state.draw();
  });
  drawn.add(state);
  watch.observe(canvas);
  return h("div.chart", { role: "img", "aria-label": said }, canvas, legend);
}

const clock = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const date = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

function plot(canvas, { at, series, stacked, height, show, times, right, tell }) {
  const xs = at.map((one) => one / 1000);
  const sums = xs.map(() => 0);
  // The sum so far is what is drawn, from the top of the pile down; the legend says the part.
  const piled = series.map((one) => (stacked ? one.values.map((value, i) => (sums[i] += value ?? 0)) : one.values));
  const order = series.map((_, i) => (stacked ? series.length - 1 - i : i));
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font, gap: 6 };
  const step = xs.length > 1 ? xs[1] - xs[0] : 3600;
  const long = (xs.at(-1) ?? 0) - (xs[0] ?? 0) > 2 * DAY;
  const upwards = { range: (_, __, max) => [0, (max || 1) * 1.08] };
  return new uPlot({
    width: canvas.clientWidth,
    height,
    padding: [8, right ? 0 : 20, 0, 0],
    cursor: { points: { show: false }, drag: { x: false, y: false }, y: false },
    legend: { show: false },
    hooks: { setCursor: [(self) => tell(self.cursor.idx ?? null)] },
    scales: { x: { range: () => [xs[0] ?? 0, (xs.at(-1) ?? 1) + step] }, y: upwards, r: upwards },
    axes: [
      { ...axis, grid: { show: false }, size: 24, space: 64, incrs: long ? [1, 2, 7, 14, 30].map((days) => days * DAY) : undefined,
        values: (_, ticks) => ticks.map((tick) => (long || new Date(tick * 1000).getHours() + new Date(tick * 1000).getMinutes() === 0 ? date : hour).format(tick * 1000)) },
      { ...axis, size: 52, space: 30, incrs: times ? SPANS : WHOLE, values: (_, ticks) => ticks.map(show) },
      ...(right ? [{ ...axis, side: 1, scale: "r", size: 58, space: 30, grid: { show: false }, incrs: SPANS, values: (_, ticks) => ticks.map(right) }] : []),
    ],
    series: [{}, ...order.map((i) => style(series[i]))],
  }, [xs, ...order.map((i) => piled[i])], canvas);
}

function style(one) {
  const stroke = colour(one.colour);
  const way = one.kind === "bar" ? { paths: uPlot.paths.bars({ size: [0.86, 24], align: 1, gap: 1 }), fill: stroke, width: 0 }
    : one.kind === "area" ? { fill: colour(one.colour, 0.18), width: 1.5 }
    : { width: 1.5, paths: one.step ? uPlot.paths.stepped({ align: 1 }) : undefined };
  return { stroke, scale: one.scale ?? "y", points: { show: false }, spanGaps: true, ...way };
}

/** Names with a bar behind each, the greatest first. */
export function ranking(items, { href, show, colour: tone = "accent", name = (item) => item.name }) {
  const most = Math.max(1, ...items.map((item) => item.count));
  return h("ol.ranking", null, items.map((item) => h("li", null,
    h("i", { class: tone, style: { width: `${(item.count / most) * 100}%` } }),
    href?.(item) ? h("a", { href: href(item) }, name(item)) : h("span", null, name(item)),
    h("b", null, show(item.count)))));
}

/** A share of a whole as a thin bar with its parts. */
export function strip(parts, said) {
  const total = parts.reduce((sum, part) => sum + part.count, 0) || 1;
  return h("div.strip", { role: "img", "aria-label": said },
    parts.filter((part) => part.count).map((part) => h("i", { class: part.colour, title: part.label, style: { "flex-grow": part.count / total } })));
}
