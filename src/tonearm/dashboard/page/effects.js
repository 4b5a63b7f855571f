// Every effect with its fields, made from the node's own description: names, ranges, defaults.

import { NumberField, Panel, Slider } from "./controls.js";
import { html, useState } from "./preact.js";
import { rounded } from "./text.js";

// "filterBand" as people read it: "Filter band".
export function words(name) {
  const spaced = name.replace(/([A-Z])/g, " $1").toLowerCase();
  return spaced[0].toUpperCase() + spaced.slice(1);
}

// The description of an effect: that of its model, which stands beside null.
function modelOf(schema, name) {
  const reference = schema.properties[name].anyOf.find((one) => one.$ref).$ref;
  return schema.$defs[reference.split("/").pop()];
}

export function Effects({ state, act, effects: schema }) {
  const [opened, setOpened] = useState("");
  const names = Object.keys(schema.properties);
  const set = (name, fields) => act("PATCH", "/filters", { [name]: fields });
  const toggle = async (name) => {
    const isOff = state[name] === null;
    if (await set(name, isOff ? begun(name) : null)) setOpened(isOff ? name : "");
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
    ${opened && state[opened] !== null && html`<${Fields} key=${opened} name=${opened} fields=${state[opened]} model=${modelOf(schema, opened)} set=${(fields) => set(opened, fields)} />`}
  <//>`;
}

// What is heard at once when an effect is switched on that does nothing with its defaults.
function begun(name) {
  return (
    {
      rotation: { rotationHz: 0.2 },
      timescale: { speed: 1.1 },
      distortion: { sinScale: 2 },
      channelMix: { leftToRight: 0.5 },
    }[name] ?? {}
  );
}

function Fields({ name, fields, model, set }) {
  // Of two that exclude each other only the one is sent that was changed.
  const change = (field, value) => set(name === "lowPass" ? { [field]: value } : { ...fields, [field]: value });
  return html`<div class="fields" role="group" aria-label=${words(name)}>
    <p class="quiet">${model.description}</p>
    ${Object.entries(model.properties).map(([field, about]) =>
      about.type === "number"
        ? html`<${Amount} key=${field} field=${field} about=${about} value=${fields[field] ?? about.default} send=${(value) => change(field, value)} />`
        : html`<${Choice} key=${field} field=${field} about=${about} value=${fields[field]} send=${(value) => change(field, value)} />`,
    )}
  </div>`;
}

function Amount({ field, about, value, send }) {
  const { minimum, maximum } = about;
  const step = maximum - minimum > 500 ? 1 : maximum - minimum > 50 ? 0.1 : 0.01;
  const shown = value ?? minimum;
  const label = words(field);
  return html`<div class="amount" title=${about.description ?? ""}>
    <${Slider} label=${label} value=${shown} min=${minimum} max=${maximum} step=${step} text=${(one) => rounded(one)} send=${send} />
    <${NumberField} aria-label=${`${label}, as a number`} min=${minimum} max=${maximum} step=${step} value=${rounded(shown)} send=${send} />
  </div>`;
}

// A field of few values: those of an enumeration, and yes and no.
function Choice({ field, about, value, send }) {
  const kinds = about.anyOf ?? [about];
  const values = kinds.flatMap((kind) => (kind.type === "boolean" ? [true, false] : (kind.enum ?? [kind.const])));
  return html`<label class="amount">${words(field)}
    <select value=${String(value)} onChange=${(event) => send(values.find((one) => String(one) === event.target.value))}>
      ${values.map((one) => html`<option value=${String(one)}>${{ true: "on", false: "off" }[one] ?? one}</option>`)}
    </select>
  </label>`;
}
