// Every effect with its fields, made from the node's own description: names, ranges, defaults.

import { NumberField, Panel, Slider, typed } from "./controls.js";
import { html, useState } from "./preact.js";
import { rounded } from "./text.js";

/** @import { EffectChoice, EffectModel, EffectName, EffectNumber, EffectsSchema, EffectValue } from "./types.js" */
/** @import { PlayerParts } from "./types.js" */
/** @import { Filters } from "./wire.js" */

// "filterBand" as people read it: "Filter band".
/** @param {string} name */
export function words(name) {
  const spaced = name.replace(/([A-Z])/g, " $1").toLowerCase();
  return spaced[0].toUpperCase() + spaced.slice(1);
}

// The description of an effect: that of its model, which stands beside null.
/**
 * @param {EffectsSchema} schema
 * @param {EffectName} name
 */
function modelOf(schema, name) {
  const [reference] = schema.properties[name].anyOf.flatMap(({ $ref }) => $ref ?? []);
  return schema.$defs[reference.split("/").at(-1) ?? ""];
}

/** @param {PlayerParts} props */
export function Effects({ state, act, effects: schema }) {
  const [opened, setOpened] = useState(/** @type {EffectName | ""} */ (""));
  const names = /** @type {EffectName[]} */ (Object.keys(schema.properties));
  const set = (/** @type {EffectName} */ name, /** @type {object | null} */ fields) =>
    act("PATCH", "/filters", { [name]: fields });
  const toggle = async (/** @type {EffectName} */ name) => {
    const isOff = state[name] === null;
    if (await set(name, isOff ? (BEGUN[name] ?? {}) : null)) setOpened(isOff ? name : "");
  };
  const aside = html`<button type="button" onClick=${() => act("PATCH", "/filters", { reset: true }, "All filters are off.")}>All off</button>`;
  return html`<${Panel} title="Effects" aside=${aside}>
    <div class="chips">
      ${names.map(
        (name) => html`<span class=${`chip ${state[name] === null ? "" : "on"}`}>
        <button type="button" role="switch" aria-checked=${state[name] !== null} onClick=${() => toggle(name)}>${words(name)}</button>
        ${
          state[name] !== null &&
          html`<button type="button" class="fold" aria-expanded=${opened === name} aria-label=${`Settings of ${words(name)}`}
          onClick=${() => setOpened(opened === name ? "" : name)}>${opened === name ? "−" : "+"}</button>`
        }
      </span>`,
      )}
    </div>
    ${opened && state[opened] !== null && html`<${Fields} key=${opened} name=${opened} fields=${state[opened]} model=${modelOf(schema, opened)} set=${(/** @type {object} */ fields) => set(opened, fields)} />`}
  <//>`;
}

// What is heard at once when an effect is switched on that does nothing with its defaults.
/** @type {Partial<Filters>} */
const BEGUN = {
  rotation: { rotationHz: 0.2 },
  timescale: { speed: 1.1 },
  distortion: { sinScale: 2 },
  channelMix: { leftToRight: 0.5 },
};

/**
 * @typedef {object} FieldsProps
 * @property {EffectName} name
 * @property {Record<string, EffectValue>} fields
 * @property {EffectModel} model
 * @property {(fields: Record<string, EffectValue>) => unknown} set
 */
/** @param {FieldsProps} props */
function Fields({ name, fields, model, set }) {
  // Of two that exclude each other only the one is sent that was changed.
  const change = (/** @type {string} */ field) => (/** @type {EffectValue} */ value) =>
    set(name === "lowPass" ? { [field]: value } : { ...fields, [field]: value });
  return html`<div class="fields" role="group" aria-label=${words(name)}>
    <p class="quiet">${model.description}</p>
    ${Object.entries(model.properties).map(([field, about]) =>
      about.type === "number"
        ? html`<${Amount} key=${field} field=${field} about=${about} value=${fields[field] ?? about.default} send=${change(field)} />`
        : html`<${Choice} key=${field} field=${field} about=${about} value=${fields[field]} send=${change(field)} />`,
    )}
  </div>`;
}

/** @param {{ field: string, about: EffectNumber, value?: number, send: (value: number) => unknown }} props */
function Amount({ field, about, value, send }) {
  const { minimum, maximum } = about;
  const step = maximum - minimum > 500 ? 1 : maximum - minimum > 50 ? 0.1 : 0.01;
  const shown = value ?? minimum;
  const label = words(field);
  return html`<div class="amount" title=${about.description ?? ""}>
    <${Slider} label=${label} value=${shown} min=${minimum} max=${maximum} step=${step} text=${rounded} send=${send} />
    <${NumberField} aria-label=${`${label}, as a number`} min=${minimum} max=${maximum} step=${step} value=${rounded(shown)} send=${send} />
  </div>`;
}

/**
 * @param {EffectChoice} kind
 * @returns {EffectValue[]}
 */
function valuesOf(kind) {
  if (kind.type === "boolean") return [true, false];
  return kind.enum ?? [kind.const ?? ""];
}

// A field of few values: those of an enumeration, and yes and no.
/** @param {{ field: string, about: EffectChoice, value: EffectValue, send: (value: EffectValue) => unknown }} props */
function Choice({ field, about, value, send }) {
  const kinds = about.anyOf ?? [about];
  const values = kinds.flatMap(valuesOf);
  const choose = typed((chosen) => send(values.find((one) => String(one) === chosen) ?? chosen));
  return html`<label class="amount">${words(field)}
    <select value=${String(value)} onChange=${choose}>
      ${values.map((one) => html`<option value=${String(one)}>${one === true ? "on" : one === false ? "off" : one}</option>`)}
    </select>
  </label>`;
}
