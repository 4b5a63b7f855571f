// What the page takes from preact and htm. The map in index.html leads their names to the files in vendor/.

/** @import { VNode } from "preact" */

import htm from "htm";
import { h } from "preact";

export { Component, render } from "preact";
export { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";

/** @type {(strings: TemplateStringsArray, ...values: unknown[]) => VNode | VNode[]} */
export const html = htm.bind(h);
