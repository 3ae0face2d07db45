import { fromBinary } from "@bufbuild/protobuf";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { ProblemSchema, Reason } from "@trunkline/proto/problem";

/** How an RPC ended, by gRPC's name of the code. */
export interface End {
  readonly code: string;
  readonly message: string;
  /** Of the problem in the status's details; undefined where there is none. */
  readonly reason: string | undefined;
}

/** What came on a stream of a harness. */
export interface Driven<Result> {
  readonly end: End;
  readonly opened: number;
  readonly refused: number;
  readonly results: readonly Result[];
}

/** Calls of a run, for a tool that returns its input. */
export interface Asked {
  readonly runId: string;
  readonly tool: string;
  readonly inputs: readonly string[];
}

/** A client of a gRPC library with its defaults, and stubs alone: nothing that we wrote is between it and the server. */
export interface ForeignClient {
  /** Completes, fails and reads the task of each token. */
  tokens(tokens: readonly string[]): Promise<readonly End[]>;
  /** Opens calls by `Drive`, in one frame after which it closes its side, and reads the rest. */
  drive(asked: Asked): Promise<Driven<string>>;
  /** The same with four calls in a frame of just so many bytes; the results are their lengths. */
  frame(asked: Omit<Asked, "inputs"> & { readonly bytes: number }): Promise<Driven<number>>;
  /** Takes one call by `Work`, and closes its side behind the answer; whether each ack is that answer's. */
  work(told: {
    readonly hello: Readonly<Record<string, unknown>>;
    readonly resultJson: string;
  }): Promise<{ readonly end: End; readonly acks: readonly boolean[] }>;
  /** The lengths of a turn's results, and of the run's payloads, page by page. */
  pages(told: {
    readonly runId: string;
    readonly turn: number;
  }): Promise<{ readonly waited: readonly number[][]; readonly listed: readonly number[][] }>;
  /** Opens calls in one request; what the refused ones are told, and the results, parsed and written again. */
  deep(asked: Asked): Promise<{ readonly refused: readonly string[]; readonly results: readonly string[] }>;
  /** Sends unknown groups, nested so deep, by `OpenCalls`, `Drive` and `Work`. */
  groups(depth: number): Promise<readonly End[]>;
}

/** The reason in a `grpc-status-details-bin`, which is a `google.rpc.Status` with a `Problem` among its details. */
export function reasonIn(details: Uint8Array): string | undefined {
  const [any] = fieldsOf(details, 3);
  const [value] = any === undefined ? [] : fieldsOf(any, 2);
  return value === undefined ? undefined : Reason[fromBinary(ProblemSchema, value).reason];
}

/** The occurrences of a field whose values are bytes. */
function fieldsOf(message: Uint8Array, wanted: number): Uint8Array[] {
  const reader = new BinaryReader(message);
  const found: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    if (field === wanted) found.push(reader.bytes());
    else reader.skip(type, field);
  }
  return found;
}
