import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findFreePort } from "../../../server/src/embedded/launch.js";
import { TestProcess } from "../../support/child-process.js";
import { until } from "../../support/until.js";

const PLACES = [...(process.env["PATH"] ?? "").split(":"), "/usr/sbin", "/usr/local/sbin"];

/** The program, where it is installed. */
export const NGINX = PLACES.map((folder) => join(folder, "nginx")).find((file) => existsSync(file));

/** An account without rights, on every Linux; its worker process would change to one anyway. */
const NOBODY = 65_534;

/** A real nginx before a node, on two ports. */
export interface Nginx extends AsyncDisposable {
  /** Where it speaks HTTP/2 without TLS, and passes gRPC on. */
  readonly grpcUrl: string;
  /** Where it speaks HTTP/1.1, and passes on by plain proxying. */
  readonly http1Url: string;
  /** What it logged of requests that went wrong. */
  readonly log: string;
}

/** What differs from nginx's defaults, as directives: for all, or for one of the `location`s. */
export interface NginxSettings {
  readonly http?: readonly string[];
  readonly grpc?: readonly string[];
  readonly http1?: readonly string[];
}

/** Starts one; resolves when it takes connections. */
export async function startNginx(
  program: string,
  nodePort: number,
  settings: NginxSettings = {},
): Promise<Nginx> {
  const folder = await mkdtemp(join(tmpdir(), "trunkline-nginx-"));
  const ports = { grpc: await findFreePort(), http1: await findFreePort() };
  const file = join(folder, "nginx.conf");
  await writeFile(file, configuration(folder, ports, nodePort, settings));
  const isRoot = process.getuid?.() === 0;
  if (isRoot) await chown(folder, NOBODY, NOBODY);
  const child = spawn(program, ["-e", "stderr", "-p", folder, "-c", file], {
    stdio: ["ignore", "ignore", "pipe"],
    ...(isRoot && { uid: NOBODY, gid: NOBODY }),
  });
  const nginx = new TestProcess(child);
  for (const port of Object.values(ports)) {
    await until("nginx takes connections", async () => {
      if (!nginx.isAlive) throw new Error(`nginx ended: ${nginx.stderr}`);
      return isThere(port);
    });
  }
  return {
    grpcUrl: `http://127.0.0.1:${ports.grpc}`,
    http1Url: `http://127.0.0.1:${ports.http1}`,
    get log() {
      return nginx.stderr;
    },
    [Symbol.asyncDispose]: async () => {
      await nginx.kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** One process, so that nothing of it is left when it is killed; everything it writes is below its folder. */
function configuration(
  folder: string,
  ports: { readonly grpc: number; readonly http1: number },
  nodePort: number,
  { http = [], grpc = [], http1 = [] }: NginxSettings,
): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `  ${name}_temp_path ${join(folder, name)};`)
    .join("\n");
  const directives = (lines: readonly string[]): string => lines.map((line) => `      ${line};\n`).join("");
  return `daemon off;
master_process off;
pid ${join(folder, "nginx.pid")};
error_log stderr info;
events {}
http {
  access_log off;
${directives(http)}${temporary}
  server {
    listen 127.0.0.1:${ports.grpc} http2;
    location / {
${directives(grpc)}      grpc_pass grpc://127.0.0.1:${nodePort};
    }
  }
  server {
    listen 127.0.0.1:${ports.http1};
    location / {
${directives(http1)}      proxy_pass http://127.0.0.1:${nodePort};
    }
  }
}
`;
}

function isThere(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1" });
    const say = (there: boolean): void => {
      socket.destroy();
      resolve(there);
    };
    socket.once("connect", () => say(true));
    socket.once("error", () => say(false));
  });
}
