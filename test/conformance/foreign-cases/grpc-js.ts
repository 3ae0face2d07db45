import {
  create,
  fromBinary,
  toBinary,
  type DescMessage,
  type DescMethod,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import type { Metadata } from "@grpc/grpc-js";
import { Client, credentials, status, type ClientDuplexStream } from "@grpc/grpc-js";
import { CallService, DriveRequestSchema, type DriveRequest } from "@trunkline/proto/call";
import { TaskService } from "@trunkline/proto/task";
import { WorkerService } from "@trunkline/proto/worker";
import { reasonIn, type Asked, type Driven, type End, type ForeignClient } from "./client.js";

const MEBIBYTE = 1024 * 1024;
const DETAILS = "grpc-status-details-bin";
const OK: End = { code: "OK", message: "", reason: undefined };

/** What grpc-js gives as an error, and as the end of a stream. */
interface Status {
  readonly code: number;
  readonly details: string;
  readonly metadata: Metadata;
}

interface Answer<O> {
  readonly end: End;
  readonly response: O | undefined;
}

const jsonOf = (bytes: number): string => `"${"x".repeat(bytes - 2)}"`;
const pathOf = ({ parent, name }: DescMethod): string => `/${parent.typeName}/${name}`;
const raw = (bytes: Uint8Array): Buffer => Buffer.from(bytes);

function endOf({ code, details, metadata }: Status): End {
  const [found] = metadata.get(DETAILS);
  const reason = Buffer.isBuffer(found) ? reasonIn(found) : undefined;
  return { code: status[code] ?? String(code), message: details, reason };
}

/** @grpc/grpc-js alone, with the generated types of messages. */
export class GrpcJsClient implements ForeignClient, Disposable {
  readonly #client: Client;

  constructor(address: string) {
    this.#client = new Client(address, credentials.createInsecure());
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }

  async tokens(tokens: readonly string[]): Promise<End[]> {
    const { completeTask, failTask, getTask } = TaskService.method;
    const answers: Answer<unknown>[] = [];
    for (const token of tokens) {
      answers.push(await this.#unary(completeTask, { token, resultJson: "1" }));
      answers.push(await this.#unary(failTask, { token, failure: { message: "no" } }));
      answers.push(await this.#unary(getTask, { token }));
    }
    return answers.map(({ end }) => end);
  }

  drive({ runId, tool, inputs }: Asked): Promise<Driven<string>> {
    const opens = inputs.map((inputJson, request) => ({ request, runId, call: { tool, inputJson } }));
    return this.#drive(create(DriveRequestSchema, { opens }));
  }

  async frame({ runId, tool, bytes }: Parameters<ForeignClient["frame"]>[0]): Promise<Driven<number>> {
    const sized = (last: number): DriveRequest => {
      const inputs = [MEBIBYTE, MEBIBYTE, MEBIBYTE, last].map(jsonOf);
      return create(DriveRequestSchema, {
        opens: inputs.map((inputJson, request) => ({ request, runId, call: { tool, inputJson } })),
      });
    };
    const excess = toBinary(DriveRequestSchema, sized(MEBIBYTE)).length - bytes;
    const driven = await this.#drive(sized(MEBIBYTE - excess));
    return { ...driven, results: driven.results.map((result) => result.length) };
  }

  async work({ hello, resultJson }: Parameters<ForeignClient["work"]>[0]): ReturnType<ForeignClient["work"]> {
    const stream = this.#stream(WorkerService.method.work);
    const acks: boolean[] = [];
    let claimId = "";
    stream.on("data", (frame) => {
      for (const claim of frame.claims) {
        claimId = claim.claimId;
        const outcome = { case: "resultJson", value: resultJson } as const;
        stream.send({ accepted: [claimId], answers: [{ claimId, callId: claim.callId, outcome }] });
        stream.end();
      }
      acks.push(...frame.acks.map((ack) => ack.claimId === claimId));
    });
    stream.send({ hello });
    return { end: await stream.ended, acks };
  }

  async pages({ runId, turn }: Parameters<ForeignClient["pages"]>[0]): ReturnType<ForeignClient["pages"]> {
    const { waitCalls, listCalls } = CallService.method;
    const waited: number[][] = [];
    const listed: number[][] = [];
    let [afterSeq, pageToken] = [0, ""];
    do {
      const page = got(await this.#unary(waitCalls, { runId, turn, afterSeq }));
      waited.push(page.outcomes.map(({ resultJson }) => resultJson.length));
      afterSeq = page.nextAfterSeq;
    } while (afterSeq !== 0);
    do {
      const page = got(await this.#unary(listCalls, { runId, payloads: true, pageToken }));
      listed.push(page.calls.map(({ inputJson, resultJson }) => inputJson.length + resultJson.length));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    return { waited, listed };
  }

  async deep({ runId, tool, inputs }: Asked): ReturnType<ForeignClient["deep"]> {
    const calls = inputs.map((inputJson) => ({ tool, inputJson, turn: 1 }));
    const { results } = got(await this.#unary(CallService.method.openCalls, { runId, calls }));
    const { outcomes } = got(await this.#unary(CallService.method.waitCalls, { runId, turn: 1 }));
    return {
      refused: results.flatMap(({ result }) => (result.case === "problem" ? [result.value.message] : [])),
      results: outcomes.map(({ resultJson }) => JSON.stringify(JSON.parse(resultJson))),
    };
  }

  async groups(depth: number): Promise<End[]> {
    // Of field 100, which is unknown: its start and its end.
    const message = Buffer.concat([
      Buffer.from("a306".repeat(depth), "hex"),
      Buffer.from("a406".repeat(depth), "hex"),
    ]);
    const unary = new Promise<End>((resolve) => {
      const path = pathOf(CallService.method.openCalls);
      this.#client.makeUnaryRequest(path, raw, raw, message, (error) =>
        resolve(error === null ? OK : endOf(error)),
      );
    });
    const streams = [CallService.method.drive, WorkerService.method.work].map(async (method) => {
      const stream = this.#client.makeBidiStreamRequest(pathOf(method), raw, raw);
      const ended = this.#ended(stream);
      stream.write(message);
      stream.end();
      return ended;
    });
    return Promise.all([unary, ...streams]);
  }

  async #drive(frame: DriveRequest): Promise<Driven<string>> {
    const stream = this.#stream(CallService.method.drive);
    let [opened, refused] = [0, 0];
    const results: string[] = [];
    stream.on("data", (each) => {
      opened += each.opened.length;
      refused += each.refused.length;
      results.push(...each.outcomes.map(({ resultJson }) => resultJson));
    });
    stream.send(frame);
    stream.end();
    return { end: await stream.ended, opened, refused, results };
  }

  #unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethod & { readonly input: I; readonly output: O },
    request: MessageInitShape<I>,
  ): Promise<Answer<MessageShape<O>>> {
    const serialize = (message: MessageShape<I>): Buffer => raw(toBinary(method.input, message));
    const parse = (bytes: Buffer): MessageShape<O> => fromBinary(method.output, bytes);
    return new Promise((resolve) => {
      const message = create(method.input, request);
      this.#client.makeUnaryRequest(pathOf(method), serialize, parse, message, (error, response) =>
        resolve({ end: error === null ? OK : endOf(error), response }),
      );
    });
  }

  #stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethod & { readonly input: I; readonly output: O },
  ) {
    const serialize = (message: MessageShape<I>): Buffer => raw(toBinary(method.input, message));
    const parse = (bytes: Buffer): MessageShape<O> => fromBinary(method.output, bytes);
    const stream = this.#client.makeBidiStreamRequest(pathOf(method), serialize, parse);
    return {
      ended: this.#ended(stream),
      send: (frame: MessageInitShape<I>) => stream.write(create(method.input, frame)),
      end: () => stream.end(),
      on: (event: "data", listener: (frame: MessageShape<O>) => void) => stream.on(event, listener),
    };
  }

  /** How a stream ends. What it brings is read, also where nobody looks at it. */
  #ended<I, O>(stream: ClientDuplexStream<I, O>): Promise<End> {
    stream.on("error", () => undefined);
    stream.resume();
    return new Promise((resolve) => stream.on("status", (each: Status) => resolve(endOf(each))));
  }
}

function got<O>({ end, response }: Answer<O>): O {
  if (response === undefined) throw new Error(`${end.code}: ${end.message}`);
  return response;
}
