# The workspace service as an image: its code and what it imports, on a small Python, as nobody in particular.
#
#   docker build --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) -t registry.example.com/workspace-service .
#
# What goes in is pinned: the base by its digest (agentenv/core/pinned_versions.toml names it too), and the packages of the
# extra `service` by uv.lock with their hashes. Stack files name the image by its digest (service.image). What only
# deployments need, Pulumi above all, stays out.
ARG BASE=public.ecr.aws/docker/library/python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${BASE} AS made
ARG SOURCE_DATE_EPOCH=0
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /made
RUN pip install --quiet uv==0.13.8
COPY pyproject.toml uv.lock README.md LICENSE ./
RUN uv export --quiet --frozen --no-default-groups --extra service --no-emit-project \
      --prune pulumi --prune pulumi-aws --prune pulumi-eks --prune pulumi-kubernetes --prune pulumi-policy --prune rich \
      --output-file requirements.txt \
 && pip install --quiet --require-hashes --no-deps --only-binary :all: --target /app --requirement requirements.txt
COPY agentenv/__init__.py /app/agentenv/
COPY agentenv/client /app/agentenv/client
COPY agentenv/config /app/agentenv/config
COPY agentenv/core /app/agentenv/core
COPY agentenv/service /app/agentenv/service
# The console's packages of npm, each by its hash
RUN python /app/agentenv/service/console/packages.py /app/agentenv/service/console/vendor
# One release longer: what `python -m service` and `python -m service.metering` start
COPY image/service /app/service
# Compiled by what is in the files and not by when they were written, so that the same sources make the same image.
RUN python -m compileall -q --invalidation-mode unchecked-hash /app \
 && find /app -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +

FROM ${BASE}
ARG VERSION=unreleased
LABEL org.opencontainers.image.version=${VERSION}
COPY --from=made /app /app
ENV PYTHONPATH=/app PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /app
USER 65532:65532
EXPOSE 8080 9090
ENTRYPOINT ["python", "-m", "agentenv.service"]
