import { homedir } from "node:os";
import path from "node:path";

/** The programs in Go with which tests speak to the server, by their modules. */
export const GO_TOOLS = {
  grpcurl: "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4",
  "grpc-health-probe": "github.com/grpc-ecosystem/grpc-health-probe@v0.4.63",
};

const cache = process.env["XDG_CACHE_HOME"] ?? path.join(homedir(), ".cache");

/**
 * The folder in which such a program is, once `install-go-tools.mjs` has built it. It outlives a clean clone.
 *
 * @param {keyof typeof GO_TOOLS} name
 */
export const goToolFolder = (name) => {
  const version = GO_TOOLS[name].split("@").at(-1) ?? "";
  return path.join(cache, "trunkline", "go-tools", `${name}-${version}`);
};
