// A minimal workspace and finance API that meets pawl's requirements: it stores the request of each idempotency key,
// and it never replaces a target with an older one. It keeps everything in memory; docs/sinks.md describes the same in
// a database. If SINK_TOKEN is set, every request needs this token. Run it with Node 22.18 or newer:
//
//	node sinks.ts 9000
import { createHash, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

type Target = { mode: string; account: string; plan?: string; state?: string; version?: number; amount?: number };

const keys = new Map<string, string>(); // the body of the first request, by Idempotency-Key
const versions = new Map<string, number>(); // the current version of each workspace, by mode and account
const token = process.env.SINK_TOKEN;

const hash = (text: string) => createHash("sha256").update(text).digest();

async function answer(request: IncomingMessage): Promise<number> {
  if (token && !timingSafeEqual(hash(request.headers.authorization ?? ""), hash(`Bearer ${token}`))) return 401;
  let body = "";
  for await (const part of request.setEncoding("utf8")) if ((body += part).length > 1 << 20) return 413;
  const key = request.headers["idempotency-key"];
  let target: Target;
  try {
    target = JSON.parse(body);
  } catch {
    return 400;
  }
  if (typeof key !== "string" || key === "" || target?.account === undefined) return 400;

  // Nothing below waits, so no other request runs between the check of the key and the change.
  const before = keys.get(key);
  if (before !== undefined) return before === body ? 200 : 409; // done before, or the key of another request
  keys.set(key, body);
  if (request.headers["pawl-check"]) return 200; // pawl sinks check: the key is remembered, and nothing is done
  const { mode, account, plan, state, version = 0, amount } = target;
  if (request.method === "POST") {
    console.log(`booked ${amount} for ${account}`); // POST /entries
  } else if (version > (versions.get(`${mode} ${account}`) ?? 0)) {
    versions.set(`${mode} ${account}`, version); // PUT /workspaces/{account}
    console.log(`workspace of ${account} (${mode}): ${state} ${plan} (version ${version})`);
  }
  return 200;
}

const server = createServer((request, response) => {
  answer(request).catch(() => 500).then((status) => response.writeHead(status).end());
});
server.listen(Number(process.argv[2] ?? 9000), "127.0.0.1", () => {
  console.log(`listening on 127.0.0.1:${(server.address() as AddressInfo).port}`);
});
