module agent-environment/rehearsal/tools/charts

go 1.26

require (
	github.com/grafana-community/helm-charts v0.0.0-20260829030558-dbf9f4fb5fa1
	github.com/opencost/opencost-helm-chart v0.0.0-20260825223215-4242feee70e7
	github.com/prometheus-community/helm-charts v0.0.0-20260828105119-ed5d7d9b5933
)
