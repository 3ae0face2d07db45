import { askForMany } from "./steps/ask-for-many.mjs";
import { askTheOwner } from "./steps/ask-the-owner.mjs";
import { closeTheShop } from "./steps/close-the-shop.mjs";
import { handleAFailure } from "./steps/handle-a-failure.mjs";
import { killInPayment } from "./steps/kill-in-payment.mjs";
import { killInRefund } from "./steps/kill-in-refund.mjs";
import { lookUp } from "./steps/look-up.mjs";
import { openTheShop } from "./steps/open-the-shop.mjs";
import { orderAReport } from "./steps/order-a-report.mjs";

/**
 * What a step has at hand.
 *
 * @typedef {object} Scene
 * @property {import("./stage.mjs").Stage} stage
 * @property {import("./troupe.mjs").Troupe} troupe
 * @property {import("./terminal.mjs").Terminal} terminal
 * @property {import("./promises.mjs").Promises} promises
 * @property {import("./cast.mjs").Books} books
 *
 * @typedef {object} Step
 * @property {string} title
 * @property {string} text What happens, and why it matters.
 * @property {(scene: Scene) => Promise<void>} play Throws when the story cannot go on.
 */

/** @type {readonly Step[]} In order: each builds on those before. */
export const STORY = [
  ...[openTheShop, lookUp, handleAFailure, askForMany],
  ...[killInRefund, killInPayment, askTheOwner, orderAReport, closeTheShop],
];
