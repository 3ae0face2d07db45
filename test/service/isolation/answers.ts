import { toJsonString, type Message } from "@bufbuild/protobuf";
import type { Case } from "./case.js";
import type { Credential, GoodCredential } from "./credentials.js";
import { redacted, type Target } from "./target.js";
import { encode, itemsOf, wordsOf, type Carrier, type Wire } from "./wire.js";

/** One request of the matrix. */
export interface Cell {
  readonly of: Case;
  readonly carrier: Carrier;
  readonly credential: Credential;
  readonly target: Target;
}

/** What came of it. */
export interface Answered extends Cell {
  /** All of the answer, but for what the request named. */
  readonly words: string;
  /** The reasons of all problems in it, where it is readable. */
  readonly reasons: readonly string[];
}

/** Whether it is more than one request and one answer. */
export const isStream = ({ method }: Case): boolean => method.methodKind !== "unary";

/** The ways in which a case can be carried, those of people first. */
export function carriersOf(of: Case): readonly [Carrier, Carrier, ...Carrier[]] {
  return isStream(of)
    ? ["connect+json", "grpc", "connect+proto", "grpc-web"]
    : ["json", "proto", "grpc", "grpc-web"];
}

/** Sends a request, and reads the answer. */
export async function ask(wire: Wire, cell: Cell): Promise<Answered> {
  const { of, carrier, credential, target } = cell;
  const { method, endless } = of;
  const answer = await wire.ask(encode(method, carrier, of.messages(target), credential.header), endless);
  const plain = isStream(of) ? itemsOf(method, answer, carrier) : wordsOf(answer, carrier);
  const words = of.makes === true ? withoutNews(redacted(plain, target)) : redacted(plain, target);
  return { ...cell, words, reasons: [...words.matchAll(/"REASON_(\w+)"/g)].map(([, reason = ""]) => reason) };
}

/** The targets that differ in this case. */
export function distinct(of: Case, targets: readonly Target[]): Target[] {
  const seen = new Map(targets.map((target) => [textOf(of, of.messages(target)), target]));
  return [...seen.values()];
}

/** What a request names is no secret to who sent it. */
export function textOf({ method }: Case, messages: readonly Message[]): string {
  return messages.map((message) => toJsonString(method.input, message)).join("\n");
}

function withoutNews(words: string): string {
  return words
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>")
    .replaceAll(/eyJ[\w-]+\.[\w-]+\.[\w-]+/g, "<token>")
    .replaceAll(/[0-9a-f]{24}/g, "<id>");
}

/** Whether a credential lets its holder use the RPC at all. */
export function isFor({ for: audience }: Case, { kind, scopes }: GoodCredential, scope: ScopeNames): boolean {
  switch (audience) {
    case "everybody":
    case "caller":
      return true;
    case "key":
      return kind === "key";
    case "root":
      return false;
    case "project's harness":
      return kind === "key" && scopes.includes(scope.harness);
    case "worker":
    case "harness":
    case "admin":
      return scopes.includes(scope[audience]);
  }
}

/** The numbers of the scopes. */
type ScopeNames = Readonly<Record<"worker" | "harness" | "admin", GoodCredential["scopes"][number]>>;

/** What a cell is called. */
export function nameOf({ of, carrier, credential, target }: Cell): string {
  return `${of.method.name} by ${carrier} with ${credential.name}, of ${target.name}`;
}
