-- A store as version 0.1.0 wrote it, and as every later one has to open it: run r waits for a decision that is in its
-- inbox, and run p has completed with the help of p/k. Never changed.
CREATE TABLE IF NOT EXISTS "checkrein_migrations" (
  migration_id integer PRIMARY KEY NOT NULL,
  created_at datetime NOT NULL DEFAULT current_timestamp,
  name VARCHAR(255) NOT NULL
);
INSERT INTO checkrein_migrations VALUES(1,'2026-11-30 08:05:21','runs');
CREATE TABLE checkrein_runs (
    run_no INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    status TEXT NOT NULL,
    started_at TEXT NOT NULL,
    seq INTEGER NOT NULL,
    summary TEXT NOT NULL
  );
INSERT INTO checkrein_runs VALUES(1,'r','cleaner','interrupted','2026-11-30T08:05:21.335Z',9,'{"runId":"r","agent":"cleaner","status":"interrupted","turns":2,"toolCalls":1,"costUsd":0,"seq":9,"inbox":0,"startedAt":"2026-11-30T08:05:21.335Z","updatedAt":"2026-11-30T08:05:21.391Z","approvals":[{"runId":"r","callId":"c2","tool":"delete_file","args":{"path":"a"},"argsDigest":"_eZP_npKC71dL-LClLeVgI"}],"unknown":[],"reason":"approval","detail":"waits for a decision about delete_file (c2)"}');
INSERT INTO checkrein_runs VALUES(2,'p','parent','completed','2026-11-30T08:05:21.401Z',8,'{"runId":"p","agent":"parent","status":"completed","turns":2,"toolCalls":1,"costUsd":0,"seq":8,"inbox":0,"startedAt":"2026-11-30T08:05:21.401Z","updatedAt":"2026-11-30T08:05:21.432Z","approvals":[],"unknown":[],"reason":"answered","detail":"the model answered"}');
INSERT INTO checkrein_runs VALUES(3,'p/k','child','completed','2026-11-30T08:05:21.417Z',4,'{"runId":"p/k","agent":"child","status":"completed","turns":1,"toolCalls":0,"costUsd":0,"seq":4,"inbox":0,"startedAt":"2026-11-30T08:05:21.417Z","updatedAt":"2026-11-30T08:05:21.426Z","approvals":[],"unknown":[],"parent":{"runId":"p","callId":"k"},"reason":"answered","detail":"the model answered"}');
CREATE TABLE checkrein_events (
    run_no INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run_no, seq)
  );
INSERT INTO checkrein_events VALUES(1,0,'{"v":1,"seq":0,"at":"2026-11-30T08:05:21.335Z","elapsedMs":6.788,"type":"run_started","agent":"cleaner","messages":[{"role":"user","content":"clean up"}],"limits":{"turns":5}}');
INSERT INTO checkrein_events VALUES(1,1,'{"v":1,"seq":1,"at":"2026-11-30T08:05:21.345Z","elapsedMs":9.797,"type":"turn_started","turn":1,"attempt":1,"purpose":"investigate","estimate":{"usage":{"promptTokens":0,"completionTokens":0},"costUsd":0}}');
INSERT INTO checkrein_events VALUES(1,2,'{"v":1,"seq":2,"at":"2026-11-30T08:05:21.366Z","elapsedMs":31.124,"type":"turn","turn":1,"message":{"role":"assistant","content":[{"type":"tool-call","id":"c1","name":"read_file","params":{"path":"a"}}]},"calls":[{"callId":"c1","argsDigest":"_eZP_npKC71dL-LClLeVgI","effect":"read"}],"usage":{"promptTokens":10,"completionTokens":5},"costUsd":0,"totalUsd":0,"unpriced":true,"model":"m","finish":"tool_calls","ms":16,"answers":false}');
INSERT INTO checkrein_events VALUES(1,3,'{"v":1,"seq":3,"at":"2026-11-30T08:05:21.369Z","elapsedMs":34.026,"type":"tool_start","callId":"c1","tool":"read_file","args":{"path":"a"},"attempt":1,"idempotencyKey":"SWtAr_VYbUSl4klsr_cw6K","purpose":"investigate"}');
INSERT INTO checkrein_events VALUES(1,4,'{"v":1,"seq":4,"at":"2026-11-30T08:05:21.375Z","elapsedMs":40.642,"type":"tool_result","callId":"c1","tool":"read_file","ms":1,"content":"content","ok":true,"disposition":"executed","digest":"7XACtDnprIRfIjV9giusFE"}');
INSERT INTO checkrein_events VALUES(1,5,'{"v":1,"seq":5,"at":"2026-11-30T08:05:21.378Z","elapsedMs":42.873,"type":"turn_started","turn":2,"attempt":1,"purpose":"investigate","estimate":{"usage":{"promptTokens":15,"completionTokens":5},"costUsd":0}}');
INSERT INTO checkrein_events VALUES(1,6,'{"v":1,"seq":6,"at":"2026-11-30T08:05:21.382Z","elapsedMs":47.383,"type":"turn","turn":2,"message":{"role":"assistant","content":[{"type":"tool-call","id":"c2","name":"delete_file","params":{"path":"a"}}]},"calls":[{"callId":"c2","argsDigest":"_eZP_npKC71dL-LClLeVgI","effect":"write","approval":"ask"}],"usage":{"promptTokens":10,"completionTokens":5},"costUsd":0,"totalUsd":0,"unpriced":true,"model":"m","finish":"tool_calls","ms":1,"answers":false}');
INSERT INTO checkrein_events VALUES(1,7,'{"v":1,"seq":7,"at":"2026-11-30T08:05:21.386Z","elapsedMs":51.159,"type":"approval_required","callId":"c2","tool":"delete_file","args":{"path":"a"},"argsDigest":"_eZP_npKC71dL-LClLeVgI"}');
INSERT INTO checkrein_events VALUES(1,8,'{"v":1,"seq":8,"at":"2026-11-30T08:05:21.391Z","elapsedMs":56.593,"type":"run_stopped","status":"interrupted","reason":"approval","detail":"waits for a decision about delete_file (c2)","turns":2,"costUsd":0}');
INSERT INTO checkrein_events VALUES(2,0,'{"v":1,"seq":0,"at":"2026-11-30T08:05:21.401Z","elapsedMs":0.05,"type":"run_started","agent":"parent","messages":[{"role":"user","content":"go"}],"limits":{"turns":5}}');
INSERT INTO checkrein_events VALUES(2,1,'{"v":1,"seq":1,"at":"2026-11-30T08:05:21.402Z","elapsedMs":0.248,"type":"turn_started","turn":1,"attempt":1,"purpose":"investigate","estimate":{"usage":{"promptTokens":0,"completionTokens":0},"costUsd":0}}');
INSERT INTO checkrein_events VALUES(2,2,'{"v":1,"seq":2,"at":"2026-11-30T08:05:21.411Z","elapsedMs":9.895,"type":"turn","turn":1,"message":{"role":"assistant","content":[{"type":"tool-call","id":"k","name":"ask","params":{"task":"look"}}]},"calls":[{"callId":"k","argsDigest":"g4Qzo4hvhDiPUuj-3Fi8U_","effect":"idempotent","agent":true}],"usage":{"promptTokens":10,"completionTokens":5},"costUsd":0,"totalUsd":0,"unpriced":true,"model":"p","finish":"tool_calls","ms":7,"answers":false}');
INSERT INTO checkrein_events VALUES(2,3,'{"v":1,"seq":3,"at":"2026-11-30T08:05:21.411Z","elapsedMs":10.097,"type":"tool_start","callId":"k","tool":"ask","args":{"task":"look"},"attempt":1,"idempotencyKey":"REbRyzB3TIp4Tc9PaKJKU7","purpose":"investigate"}');
INSERT INTO checkrein_events VALUES(3,0,'{"v":1,"seq":0,"at":"2026-11-30T08:05:21.417Z","elapsedMs":0.049,"type":"run_started","agent":"child","messages":[{"role":"user","content":"look"}],"limits":{"turns":5},"parent":{"runId":"p","callId":"k"}}');
INSERT INTO checkrein_events VALUES(3,1,'{"v":1,"seq":1,"at":"2026-11-30T08:05:21.417Z","elapsedMs":0.264,"type":"turn_started","turn":1,"attempt":1,"purpose":"investigate","estimate":{"usage":{"promptTokens":0,"completionTokens":0},"costUsd":0}}');
INSERT INTO checkrein_events VALUES(3,2,'{"v":1,"seq":2,"at":"2026-11-30T08:05:21.426Z","elapsedMs":8.864,"type":"turn","turn":1,"message":{"role":"assistant","content":[{"type":"text","text":"found it"}]},"calls":[],"usage":{"promptTokens":10,"completionTokens":5},"costUsd":0,"totalUsd":0,"unpriced":true,"model":"c","finish":"stop","ms":2,"answers":true}');
INSERT INTO checkrein_events VALUES(3,3,'{"v":1,"seq":3,"at":"2026-11-30T08:05:21.426Z","elapsedMs":8.92,"type":"run_stopped","status":"completed","reason":"answered","detail":"the model answered","turns":1,"costUsd":0}');
INSERT INTO checkrein_events VALUES(2,4,'{"v":1,"seq":4,"at":"2026-11-30T08:05:21.428Z","elapsedMs":27.037,"type":"tool_result","callId":"k","tool":"ask","ms":13,"childCostUsd":0,"content":"found it","ok":true,"disposition":"executed","digest":"dYQMrK-bNkixUGrwiP7kgU"}');
INSERT INTO checkrein_events VALUES(2,5,'{"v":1,"seq":5,"at":"2026-11-30T08:05:21.429Z","elapsedMs":28.039,"type":"turn_started","turn":2,"attempt":1,"purpose":"investigate","estimate":{"usage":{"promptTokens":15,"completionTokens":5},"costUsd":0}}');
INSERT INTO checkrein_events VALUES(2,6,'{"v":1,"seq":6,"at":"2026-11-30T08:05:21.432Z","elapsedMs":30.43,"type":"turn","turn":2,"message":{"role":"assistant","content":[{"type":"text","text":"done"}]},"calls":[],"usage":{"promptTokens":10,"completionTokens":5},"costUsd":0,"totalUsd":0,"unpriced":true,"model":"p","finish":"stop","ms":2,"answers":true}');
INSERT INTO checkrein_events VALUES(2,7,'{"v":1,"seq":7,"at":"2026-11-30T08:05:21.432Z","elapsedMs":30.487,"type":"run_stopped","status":"completed","reason":"answered","detail":"the model answered","turns":2,"costUsd":0}');
CREATE TABLE checkrein_commands (
    run_id TEXT NOT NULL,
    id INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run_id, id)
  );
INSERT INTO checkrein_commands VALUES('r',1,'{"type":"decide","callId":"c2","argsDigest":"_eZP_npKC71dL-LClLeVgI","decision":"approved","by":"ann"}');
CREATE INDEX checkrein_runs_newest ON checkrein_runs (started_at, run_id);
CREATE INDEX checkrein_runs_status ON checkrein_runs (status, started_at, run_id);
CREATE INDEX checkrein_runs_agent ON checkrein_runs (agent, started_at, run_id);
CREATE INDEX checkrein_runs_agent_status ON checkrein_runs (agent, status, started_at, run_id);
