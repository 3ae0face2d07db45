import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { ClaimSchema, type Claim } from "@trunkline/proto/worker";

let made = 0;

/** A claim with an id of its own. */
export function claimOf(fields: MessageInitShape<typeof ClaimSchema> = {}): Claim {
  made++;
  return create(ClaimSchema, {
    claimId: `claim-${made}`,
    callId: `00000000-0000-4000-8000-000000000000/${made}`,
    attempt: 1,
    tool: "echo",
    inputJson: "{}",
    namespace: "default",
    ...fields,
  });
}

/** A promise and what settles it. */
export function gate<T = void>(): { promise: Promise<T>; open: (value: T) => void } {
  let open: (value: T) => void = () => undefined;
  const promise = new Promise<T>((resolve) => {
    open = resolve;
  });
  return { promise, open };
}
