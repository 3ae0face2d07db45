import {
  create,
  type DescMessage,
  type DescMethod,
  type DescService,
  type Message,
  type MessageInitShape,
} from "@bufbuild/protobuf";
import type { Target } from "./target.js";

/** Who an RPC is for, said here once more: what the server's own table says is what is tested. */
export type Audience =
  "everybody" | "caller" | "worker" | "harness" | "project's harness" | "admin" | "key" | "root";

/** How one RPC is asked for what is somebody else's. */
export interface Ask<I extends DescMessage = DescMessage> {
  readonly for: Audience;
  /** The request, or the frames of a stream. */
  readonly send: (target: Target) => MessageInitShape<I> | readonly MessageInitShape<I>[];
  /** Why whoever may use the RPC, but not for that, is refused: all reasons of the answer; none: it has nothing. */
  readonly refused: readonly string[];
  /** Tokens of one run are refused before anything is looked for, in words with that run's id. */
  readonly notOfRun?: true;
  /** It names what belongs to the whole project, which is not foreign to its end users. */
  readonly ofProject?: true;
  /** Its answer has something new in it, with names and times of its own. */
  readonly makes?: true;
  /** It says hello: of two of one session at a time, one would be refused for the other. */
  readonly inTurn?: true;
  /** Its answer comes and never ends. */
  readonly endless?: true;
}

/** An {@link Ask} of a method. */
export interface Case extends Omit<Ask, "send"> {
  readonly method: DescMethod;
  readonly messages: (target: Target) => readonly Message[];
}

/** What is asked of each method of a service: one without does not compile. */
type AsksOf<S extends DescService> = {
  readonly [M in keyof S["method"]]: readonly Ask<S["method"][M]["input"]>[];
};

/** The cases of a service, in the order in which they are written. */
export function casesOf<S extends DescService>(service: S, asks: AsksOf<S>): Case[] {
  // Each was checked against its own method's input above.
  const byMethod = Object.entries(asks) as unknown as readonly (readonly [string, readonly Ask[]])[];
  return byMethod.flatMap(([name, own]) => {
    const method = service.method[name];
    if (method === undefined) throw new Error(`${service.typeName} has no method ${name}`);
    return own.map(({ send, ...rest }): Case => {
      const messages = (target: Target): readonly Message[] => {
        const sent = send(target);
        return Array.isArray(sent)
          ? sent.map((each: MessageInitShape<DescMessage>) => create(method.input, each))
          : [create(method.input, sent as MessageInitShape<DescMessage>)];
      };
      return { ...rest, method, messages };
    });
  });
}
