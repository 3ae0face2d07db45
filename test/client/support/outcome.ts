import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { OpenedSchema, RefusedSchema, type NewCall, type Opened, type Refused } from "@trunkline/proto/call";
import { CallState, OutcomeSchema, type Outcome } from "@trunkline/proto/model";
import { ProblemSchema, Reason } from "@trunkline/proto/problem";

/** That a call was opened, as its run's call number `seq`. */
export function openedOf(
  open: NewCall,
  seq: number,
  fields: MessageInitShape<typeof OpenedSchema> = {},
): Opened {
  const { request, runId, call } = open;
  const key = call?.key ?? "";
  return create(OpenedSchema, { request, callId: `${runId}/${seq}`, key, created: true, ...fields });
}

/** That a call succeeded, or what `fields` say. */
export function outcomeOf(callId: string, fields: MessageInitShape<typeof OutcomeSchema> = {}): Outcome {
  return create(OutcomeSchema, {
    ...{ callId, tool: "echo", state: CallState.SUCCEEDED, resultJson: "null", attempt: 1 },
    ...fields,
  });
}

/** That an open was refused. */
export function refusedOf(open: NewCall, reason: Reason): Refused {
  const problem = create(ProblemSchema, { reason, message: `refused: ${Reason[reason]}` });
  return create(RefusedSchema, { request: open.request, problem });
}
