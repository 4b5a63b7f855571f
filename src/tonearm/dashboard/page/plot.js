// Some lines over the last minutes, by uPlot, which app's page has loaded as `uPlot`.

import { html, useEffect, useRef } from "./preact.js";
import { timeOfDay } from "./text.js";

/** @import { Axis } from "uplot" */
/** @import { Figure, PlotLine } from "./types.js" */

const HEIGHT_PX = 120;
const SHOWN_S = 300;
const LEAST_MAXIMUM = 5;

// A colour of the styles, as a canvas takes it: by `element`, whose own colour nothing shows.
/**
 * @param {HTMLElement} element
 * @param {string} name
 */
function colorOf(element, name) {
  element.style.color = `var(${name})`;
  return getComputedStyle(element).color;
}

/**
 * @param {HTMLElement} element
 * @param {PlotLine[]} lines
 * @param {string} unit
 */
function made(element, lines, unit) {
  const color = (/** @type {string} */ name) => colorOf(element, name);
  /** @type {Axis} */
  const axis = {
    stroke: () => color("--quiet"),
    grid: { stroke: () => color("--line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  return new uPlot(
    {
      width: element.clientWidth,
      height: HEIGHT_PX,
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { range: (_, __, newest) => [(newest ?? Date.now() / 1000) - SHOWN_S, newest ?? Date.now() / 1000] },
        y: { range: (_, __, most) => [0, Math.max(LEAST_MAXIMUM, most * 1.1)] },
      },
      axes: [
        {
          ...axis,
          space: 70,
          size: 26,
          values: (_, marks) => marks.map((time) => timeOfDay(time * 1000, { hour: "2-digit", minute: "2-digit" })),
        },
        { ...axis, space: 30, size: 48, values: (_, marks) => marks.map((value) => `${value}${unit}`) },
      ],
      series: [
        {},
        ...lines.map((_, index) => ({
          stroke: () => color(`--plot-${index + 1}`),
          width: 1.5,
          points: { show: false },
        })),
      ],
    },
    [[], ...lines.map(() => [])],
    element,
  );
}

// `lines` are {name, value(figure)}, `figures` have `time` in s. The newest values stand beside the names, as text.
/** @param {{ lines: PlotLine[], figures: Figure[], unit: string }} props */
export function Plot({ lines, figures, unit }) {
  const element = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {uPlot | null} */ (null));
  useEffect(() => {
    const { current: place } = element;
    if (!place) return undefined;
    const drawn = made(place, lines, unit);
    plot.current = drawn;
    const size = new ResizeObserver(([{ contentRect }]) =>
      drawn.setSize({ width: contentRect.width, height: HEIGHT_PX }),
    );
    size.observe(place);
    return () => {
      size.disconnect();
      drawn.destroy();
    };
  }, []);
  useEffect(() => {
    plot.current?.setData([figures.map(({ time }) => time), ...lines.map(({ value }) => figures.map(value))]);
  });
  const newest = figures.at(-1);
  return html`
    <ul class="legend">
      ${lines.map(({ name, value }, index) => html`<li class=${`plot-${index + 1}`}>${name} <b>${newest ? `${Math.round(value(newest) * 10) / 10}${unit}` : "–"}</b></li>`)}
    </ul>
    <div class="plot" ref=${element} aria-hidden="true"></div>`;
}
