# Bash completion of uroce(1) and uroced(8). What there is to complete is what the programs' own --help lists.

# The options that `COMMAND... --help` lists.
_uroce_options() {
  "$@" --help 2>/dev/null | sed -n '/^Options:/,/^$/s/^  \(-[^ ]*\).*/\1/p' | tr , '\n'
}

# The subcommands that `uroce --help` lists.
_uroce_subcommands() {
  "$1" --help 2>/dev/null | sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'
}

# Behind `uroce run [OPTION... --]` stands a command, with a completion of its own.
_uroce_run() {
  local first=2
  if [[ ${COMP_WORDS[2]} == -* ]]; then
    while ((first < COMP_CWORD)) && [[ ${COMP_WORDS[first]} != -- ]]; do ((++first)); done
    if ((first == COMP_CWORD)); then
      mapfile -t COMPREPLY < <(compgen -W '--net --namespace --no-tree --' -- "${COMP_WORDS[COMP_CWORD]}")
      return
    fi
    ((++first))
  fi
  if declare -F _command_offset >/dev/null; then
    _command_offset "$first"
  else
    mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
  fi
}

_uroce() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$(_uroce_subcommands "$1") $(_uroce_options "$1")" -- "$word")
  elif [[ ${COMP_WORDS[1]} == run ]]; then
    _uroce_run
  elif [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_uroce_options "$1" "${COMP_WORDS[1]}")" -- "$word")
  elif [[ ${COMP_WORDS[1]} == addr && $before == addr ]]; then
    mapfile -t COMPREPLY < <(compgen -W 'add del' -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}

_uroced() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words=
  COMPREPLY=()
  case $before in
    --port) words='loopback udp shm,path= net_af_packet0,iface= net_af_xdp0,iface=' ;;
    --idle) words='adaptive poll' ;;
    --recovery) words='selective go-back-n' ;;
    --direct|--latency) words='on off' ;;
    --congestion) words='dcqcn delay none' ;;
    --seccomp) words='on kill log off' ;;
    --log-level) words='trace debug info warning error off' ;;
    --metrics) words='127.0.0.1:9747 unix:/run/uroce/metrics.sock' ;;
    --config | --socket | --pid-file) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    --*) [[ $word == -* ]] || return ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "${words:-$(_uroce_options "$1")}" -- "$word")
}

complete -o default -F _uroce uroce
complete -o default -F _uroced uroced
