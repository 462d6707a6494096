#!/bin/bash
# The cluster of docker-compose.yml: deploy/cluster.sh up | demo [--kill] | down
#
#   up     builds the image, makes passwords if there are none (.env), starts all and waits until it is healthy
#   demo   runs the scenarios of the demonstration on it; with --kill one coordinator and one bank are killed meanwhile
#   down   removes containers, network and volumes, with all data in them
set -euo pipefail
cd "$(dirname "$0")/.."

export COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-sagacity}
wait_seconds=${CLUSTER_WAIT_SECONDS:-180}
secret_names=(POSTGRES_PASSWORD COORDINATOR_PASSWORD BANK_A_PASSWORD BANK_B_PASSWORD NATS_PASSWORD SAGACITY_TOKEN)
healthy=(coordinator-1 coordinator-2 bank-a bank-b)

if docker compose version >/dev/null 2>&1; then
  compose() { docker compose "$@"; }
elif command -v docker-compose >/dev/null; then
  compose() { docker-compose "$@"; }
else
  echo 'cluster: neither "docker compose" nor docker-compose is installed; install one of them' >&2
  exit 1
fi

random() { od -An -N "$1" -tx1 /dev/urandom | tr -d ' \n'; }

# secrets makes what .env does not have yet. It is for this user only, and git ignores it.
secrets() {
  local name
  (umask 077 && touch .env)
  grep -q '^COMPOSE_PROJECT_NAME=' .env || printf 'COMPOSE_PROJECT_NAME=%s\n' "$COMPOSE_PROJECT_NAME" >>.env
  for name in "${secret_names[@]}"; do
    grep -q "^$name=" .env || printf '%s=s%s\n' "$name" "$(random 24)" >>.env # a letter first: see deploy/nats/nats.conf
  done
}

# container SERVICE: its id; nothing if there is none.
container() { docker ps -aq --no-trunc --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" \
  --filter "label=com.docker.compose.service=$1" --filter label=com.docker.compose.oneoff=False; }

health() { docker inspect --format '{{if .State.Running}}{{.State.Health.Status}}{{else}}{{.State.Status}}{{end}}' "$(container "$1")" 2>/dev/null || echo missing; }

# await SERVICE…: waits until all are healthy.
await() {
  local end=$((SECONDS + wait_seconds)) service state
  for service in "$@"; do
    until state=$(health "$service") && [ "$state" = healthy ]; do
      if [ "$SECONDS" -ge "$end" ]; then
        echo "cluster: $service is $state after $wait_seconds s; its last words:" >&2
        docker logs --tail 20 "$(container "$service")" >&2 || true
        return 1
      fi
      sleep 0.3
    done
  done
}

port() { compose port "$1" 8080; }

up() {
  secrets
  VERSION=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo devel)}
  export VERSION
  compose build migrate # all of our containers are of this one image
  compose up -d --no-build --remove-orphans
  await "${healthy[@]}"
  cat <<TEXT

The cluster runs.

  API          http://$(port coordinator-1) and http://$(port coordinator-2), with the token in .env
  PostgreSQL   databases coordinator, bank_a, bank_b; inside the network only: $compose_name exec postgres psql -U postgres
  NATS         inside the network only; its streams are on a volume
  Logs         $compose_name logs -f coordinator-1 bank-a
  Scenarios    make cluster-demo    make cluster-demo KILL=1
  Remove all   make cluster-down

Talk to it:

  export SAGACITY_SERVER=http://$(port coordinator-1) SAGACITY_TOKEN=\$(sed -n s/^SAGACITY_TOKEN=//p .env)
  go run ./cmd/coordinator tx list

TEXT
}

# act VERB SERVICE…: what the demonstration asks for. It says "done", or what went wrong.
act() {
  local verb=$1 ids=() service said
  shift
  for service in "$@"; do ids+=("$(container "$service")"); done
  case $verb in
    stop | start | kill) said=$(docker "$verb" "${ids[@]}" 2>&1) && echo done || echo "docker $verb: ${said//$'\n'/ }" ;;
    *) echo "cluster.sh does not know how to $verb" ;;
  esac
}

# end_demo removes what an interrupted demonstration leaves, and starts what it had stopped.
end_demo() {
  local service
  for service in "${healthy[@]}"; do docker start "$(container "$service")" >/dev/null || true; done
  docker ps -aq --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" --filter label=com.docker.compose.service=demo |
    xargs -r docker rm -f >/dev/null
}

# demo runs the scenarios in a container of its own and does what they ask for: "ask: kill coordinator-1 bank-b (…".
demo() {
  local line what answer status=0 pid words=()
  [ -n "$(container coordinator-1)" ] || { echo 'cluster: it does not run; "make cluster" starts it' >&2; return 1; }
  trap end_demo EXIT
  trap 'exit 130' INT TERM
  coproc SCENARIOS { compose run --rm -T demo coordinator demo "$@" 2>&1; }
  pid=$SCENARIOS_PID
  local in=${SCENARIOS[0]} out=${SCENARIOS[1]}
  exec {answers}>&"$out" {lines}<&"$in"
  while IFS= read -r line <&"$lines"; do
    if [[ $line == 'ask: '* ]]; then
      what=${line#ask: }
      what=${what%% (*}
      read -ra words <<<"$what"
      answer=$(act "${words[@]}")
      printf -- '-- %s: %s\n' "$what" "$answer"
      printf '%s\n' "$answer" >&"$answers"
    else
      printf '%s\n' "$line"
    fi
  done
  exec {answers}>&- {lines}<&-
  wait "$pid" || status=$?
  await "${healthy[@]}"
  return "$status"
}

down() {
  [ -f .env ] || export "${secret_names[@]/%/=unused}" # the file wants values, whatever they are
  compose --profile demo down --volumes --remove-orphans --timeout 40
}

compose_name=$(docker compose version >/dev/null 2>&1 && echo 'docker compose' || echo docker-compose)
case ${1:-} in
  up | demo | down) "$@" ;;
  *)
    echo 'usage: deploy/cluster.sh up | demo [--kill] | down' >&2
    exit 2
    ;;
esac
