import { join } from "node:path";
import { findFreePort } from "../../../server/src/embedded/launch.js";
import { documented, type Changes } from "./documented.js";
import { CERTIFICATE, installed, PRIVATE_KEY, startProxy, type ProxyProcess } from "./proxy-process.js";

/** The program, where it is installed. */
export const NGINX = installed("nginx");

/** A real nginx before a node, on two ports. */
export interface Nginx extends ProxyProcess {
  /** Where it speaks HTTP/2 without TLS, and passes gRPC on. */
  readonly grpcUrl: string;
  /** Where it speaks HTTP/1.1, and passes on by plain proxying. */
  readonly http1Url: string;
}

/** A real nginx that speaks TLS, before one node or two. */
export interface SecureNginx extends ProxyProcess {
  /** Where it speaks TLS. */
  readonly url: string;
  /** Where it speaks HTTP/2 without. */
  readonly plainUrl: string;
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
  { http = [], grpc = [], http1 = [] }: NginxSettings = {},
): Promise<Nginx> {
  const ports = { grpc: await findFreePort(), http1: await findFreePort() };
  const directives = (lines: readonly string[]): string => lines.map((line) => `${line};\n`).join("");
  const servers = `${directives(http)}
server {
  listen 127.0.0.1:${ports.grpc} http2;
  location / {
    ${directives(grpc)}
    grpc_pass grpc://127.0.0.1:${nodePort};
  }
}
server {
  listen 127.0.0.1:${ports.http1};
  location / {
    ${directives(http1)}
    proxy_pass http://127.0.0.1:${nodePort};
  }
}
`;
  const proxy = await start(program, Object.values(ports), async () => ({ "servers.conf": servers }));
  return Object.assign(proxy, {
    grpcUrl: `http://127.0.0.1:${ports.grpc}`,
    http1Url: `http://127.0.0.1:${ports.http1}`,
  });
}

/** Starts one as docs/operations.md says; resolves when it takes connections. */
export async function startSecureNginx(
  program: string,
  nodePorts: readonly [number, number?],
  changes: Changes = {},
): Promise<SecureNginx> {
  const [tls, plain] = [await findFreePort(), await findFreePort()];
  const [one, two = one] = nodePorts;
  const files = async (folder: string) => ({
    "trunkline.pem": CERTIFICATE,
    "trunkline.key": PRIVATE_KEY,
    "servers.conf": await documented("nginx", {
      "listen 443 ssl http2;": `listen 127.0.0.1:${tls} ssl http2;\n  listen 127.0.0.1:${plain} http2;`,
      "/etc/nginx/trunkline.pem": join(folder, "trunkline.pem"),
      "/etc/nginx/trunkline.key": join(folder, "trunkline.key"),
      "10.0.0.1:7788": `127.0.0.1:${one}`,
      "10.0.0.2:7788": `127.0.0.1:${two}`,
      ...changes,
    }),
  });
  const proxy = await start(program, [tls, plain], files);
  return Object.assign(proxy, { url: `https://127.0.0.1:${tls}`, plainUrl: `http://127.0.0.1:${plain}` });
}

/** One process, so that nothing of it is left when it is killed; everything it writes is below its folder. */
function start(
  program: string,
  ports: readonly number[],
  files: (folder: string) => Promise<Readonly<Record<string, string>>>,
): Promise<ProxyProcess> {
  const configuration = (folder: string): string => {
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
      .map((name) => `  ${name}_temp_path ${join(folder, name)};`)
      .join("\n");
    return `daemon off;
master_process off;
pid ${join(folder, "nginx.pid")};
error_log stderr info;
events {}
http {
  access_log off;
${temporary}
  include ${join(folder, "servers.conf")};
}
`;
  };
  return startProxy({
    program,
    args: (folder) => ["-e", "stderr", "-p", folder, "-c", join(folder, "nginx.conf")],
    files: async (folder) => ({ "nginx.conf": configuration(folder), ...(await files(folder)) }),
    ports,
  });
}
